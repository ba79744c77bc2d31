// Package plantedtest is for tests which show that a package's schedules find what is planted.
package plantedtest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/planted"
)

// Found runs TestPlantedBugsAreFound of the package under test, in a build of its own, so that no
// other one has the bugs, and fails unless each of them was found.
func Found(t *testing.T, bugs []planted.Bug) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the tests anew with the bugs in them")
	}
	out, err := exec.Command("go", "test", "-tags", "planted", "-count=1", "-v", "-run", "^TestPlantedBugsAreFound$", ".").CombinedOutput()
	var found []string
	for line := range strings.Lines(string(out)) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			found = append(found, strings.TrimSpace(text))
		}
	}
	t.Log("\n" + strings.Join(found, "\n"))
	require.NoError(t, err, "%s", out)
	require.NotEmpty(t, bugs)
	for _, bug := range bugs {
		require.Contains(t, string(out), string(bug)+": found by seed")
	}
}
