//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A copy of this test binary with testGuard in its environment is a guard that does as that says.
const (
	testGuard    = "SUPERVISE_TEST_GUARD"
	dies         = "dies"          // before it has reported anything
	unresponsive = "unresponsive:" // it reads no orders; at their end it makes the file named, and revokes nothing
)

func init() {
	how := os.Getenv(testGuard)
	switch {
	case how == "":
		return
	case len(how) > len(unresponsive) && how[:len(unresponsive)] == unresponsive:
		orders := []unix.PollFd{{Fd: ordersFile}} // the end is reported unasked
		for orders[0].Revents&unix.POLLHUP == 0 {
			_, _ = unix.Poll(orders, -1) // interrupted, say
		}
		if err := os.WriteFile(how[len(unresponsive):], nil, 0o600); err != nil {
			panic(err)
		}
	}
	os.Exit(0)
}

// aJob is one with a guard that behaves as it says.
func aJob(t *testing.T, how string) *job {
	t.Helper()
	cfg := valid()
	cfg.GuardEnv = append(os.Environ(), testGuard+"="+how)
	j := &job{r: &runner{cfg: cfg.withDefaults()}}
	require.NoError(t, j.launch())
	j.begun = true
	return j
}

// A guard that cannot be notified that it may go is ended before its orders are: it would revoke
// the lease of a holder that lives, and may lead again.
func TestDismissedGuardRevokesNothing(t *testing.T) {
	t.Parallel()
	revoked := filepath.Join(t.TempDir(), "revoked")
	j := aJob(t, unresponsive+revoked)
	require.NoError(t, j.orders.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := j.orders.Write(make([]byte, 1<<20)) // more than a pipe holds
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	j.dismiss()
	require.NoFileExists(t, revoked)
}

// Where the guard went before it said what the command is, what it left is ended, and not the
// children that this process had before.
func TestChildrenFromBeforeAreLeftAlone(t *testing.T) {
	for name, made := range map[string]bool{"": false, "with what it left": true} {
		t.Run(name, func(t *testing.T) {
			sleep := func() *exec.Cmd {
				cmd := exec.Command("sleep", "600")
				require.NoError(t, cmd.Start())
				return cmd
			}
			before := sleep()
			j := aJob(t, dies)
			for said := range j.reports {
				t.Fatalf("it said %+v", said)
			}
			<-j.ended
			j.unguarded = true
			if made && runtime.GOOS == "linux" { // elsewhere the command's orphans are not adopted
				left := sleep()
				j.kill()
				require.Error(t, left.Wait(), "it was killed, and may have been reaped")
			}
			for j.kill(); !j.end.Gone; j.kill() {
				require.NoError(t, before.Process.Signal(syscall.Signal(0)), "it is not the command's")
			}
			j.dismiss()
			require.NoError(t, before.Process.Kill())
			require.Error(t, before.Wait())
			status, ok := before.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, ok && status.Signaled(), "it lived until it was killed here")
		})
	}
}
