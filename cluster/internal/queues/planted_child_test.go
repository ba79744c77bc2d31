//go:build !planted

package queues

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/planted"
)

// What finds nothing proves nothing: each planted bug is found by the schedules. They
// are in a build of their own, so that no other one has them.
func TestPlantedBugs(t *testing.T) {
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
	for _, bug := range planted.Queues() {
		require.Contains(t, string(out), string(bug)+": found by seed")
	}
}
