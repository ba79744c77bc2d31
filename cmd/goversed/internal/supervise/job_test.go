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

// A copy of this test binary with testGuard in its environment is a guard that behaves accordingly.
const (
	testGuard         = "SUPERVISE_TEST_GUARD"
	guardDies         = "dies"          // before it has reported anything
	guardUnresponsive = "unresponsive:" // reads no orders; after their end it creates the named file, and revokes nothing
)

func init() {
	how := os.Getenv(testGuard)
	switch {
	case how == "":
		return
	case len(how) > len(guardUnresponsive) && how[:len(guardUnresponsive)] == guardUnresponsive:
		orders := []unix.PollFd{{Fd: ordersFile}} // poll always reports the end
		for orders[0].Revents&unix.POLLHUP == 0 {
			_, _ = unix.Poll(orders, -1) // it may be interrupted
		}
		if err := os.WriteFile(how[len(guardUnresponsive):], nil, 0o600); err != nil {
			panic(err)
		}
	}
	os.Exit(0)
}

// newTestJob returns a job with a guard that behaves as given by how.
func newTestJob(t *testing.T, how string) *job {
	t.Helper()
	cfg := validConfig()
	cfg.GuardEnv = append(os.Environ(), testGuard+"="+how)
	j := &job{runner: &runner{cfg: cfg.withDefaults()}}
	require.NoError(t, j.launchGuard())
	j.begun = true
	return j
}

// If a guard does not read that it can leave, it is killed before its orders are closed. Otherwise it would
// revoke the lease of a live holder, which may lead again.
func TestDismissedGuardRevokesNothing(t *testing.T) {
	t.Parallel()
	revoked := filepath.Join(t.TempDir(), "revoked")
	j := newTestJob(t, guardUnresponsive+revoked)
	require.NoError(t, j.orders.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := j.orders.Write(make([]byte, 1<<20)) // more than a pipe holds
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	j.dismissGuard()
	require.NoFileExists(t, revoked)
}

// If the guard ended before it reported the command's process id, the processes it left are killed, but not the
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
			j := newTestJob(t, guardDies)
			for said := range j.reports {
				t.Fatalf("it said %+v", said)
			}
			<-j.guardReaped
			j.unguarded = true
			if made && runtime.GOOS == "linux" { // on other systems orphans of the command are not adopted
				left := sleep()
				j.killGuard()
				require.Error(t, left.Wait(), "it was killed, and may have been reaped")
			}
			for j.killGuard(); !j.lastReport.Gone; j.killGuard() {
				require.NoError(t, before.Process.Signal(syscall.Signal(0)), "it is not the command's")
			}
			j.dismissGuard()
			require.NoError(t, before.Process.Kill())
			require.Error(t, before.Wait())
			status, ok := before.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, ok && status.Signaled(), "it lived until it was killed here")
		})
	}
}
