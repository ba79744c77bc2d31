// Package mutanttest is for tests which show that a package's schedules find its mutants.
package mutanttest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/mutant"
)

// Found runs TestMutantsAreFound of the package under test, in a build of its own, so that no
// other build has the mutants, and fails unless each of them was found.
func Found(t *testing.T, mutants []mutant.Name) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the tests anew with the mutants in them")
	}
	out, err := exec.Command("go", "test", "-tags", "mutants", "-count=1", "-v",
		"-run", "^TestMutantsAreFound$", ".").CombinedOutput()
	var found []string
	for line := range strings.Lines(string(out)) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			found = append(found, strings.TrimSpace(text))
		}
	}
	t.Log("\n" + strings.Join(found, "\n"))
	require.NoError(t, err, "%s", out)
	require.NotEmpty(t, mutants)
	for _, m := range mutants {
		require.Contains(t, string(out), string(m)+": found by seed")
	}
}
