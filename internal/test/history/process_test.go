//go:build unix

package history

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStoppedAndKilledProcess stops a child, continues it, and kills it. The child's times match those of this
// process, also across the stop, and its file has its answers up to the end.
func TestStoppedAndKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "child.jsonl")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+path)
	begun := Now()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	sampledAfter := func(i Instant) {
		require.Eventually(t, func() bool {
			h, err := ReadFiles(path)
			return err == nil && len(h.Runs) > 0 && h.Runs[len(h.Runs)-1].Last.Before > i
		}, 20*time.Second, 5*time.Millisecond)
	}
	sampledAfter(begun)
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
	stopped := Now()
	require.Eventually(t, func() bool { return Now() > stopped.Add(3*maxPause) }, time.Minute, 10*time.Millisecond)
	resumed := Now()
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	sampledAfter(resumed)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "it was killed")
	killed := Now()

	h, err := ReadFiles(path)
	require.NoError(t, err)
	require.Len(t, h.Processes, 1)
	require.Greater(t, h.Processes[0].At, begun)
	require.Less(t, h.Processes[0].At, stopped)
	runs := h.leadershipLives()[0]
	require.GreaterOrEqual(t, len(runs), 2, "a pause ends a run")
	for _, r := range runs {
		require.False(t, r.First.Before > stopped && r.First.Before < resumed, "a sample begun by a stopped process")
		require.Less(t, r.Last.After, killed)
	}
	terms := termsOf(runs)
	require.Len(t, terms, 1, "it said yes before and after, by one token")
	require.Less(t, terms[0].Begun(), stopped)
	require.Greater(t, terms[0].Ended(), resumed)
}
