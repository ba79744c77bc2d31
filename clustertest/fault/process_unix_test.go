//go:build unix

package fault

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExitAndOutput(t *testing.T) {
	p := start(t, "exit")
	code, err := p.Exit(patient(t))
	require.NoError(t, err)
	require.Equal(t, exitCode, code)
	require.Equal(t, "out\nerr\n", p.Output())
	require.False(t, p.Running())
	require.Equal(t, "exit status 42", p.State())
	for name, send := range map[string]func() (time.Time, error){"kill": p.Kill, "freeze": p.Freeze, "thaw": p.Thaw} {
		_, err := send()
		require.ErrorIs(t, err, os.ErrProcessDone, name)
	}
	require.NoError(t, p.Close())
}

func TestStartFails(t *testing.T) {
	noLeaks(t)
	_, err := StartProcess(exec.Command(filepath.Join(t.TempDir(), "nothing")))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOutputOfTheCallersOwn(t *testing.T) {
	noLeaks(t)
	var out strings.Builder
	cmd := exec.Command("sh", "-c", "echo one; echo two >&2")
	cmd.Stdout = &out
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	_, err = p.Exit(patient(t))
	require.NoError(t, err)
	require.Equal(t, "one\n", out.String())
	require.Equal(t, "two\n", p.Output())
}

// listening starts an echo child and returns its address.
func listening(t *testing.T) (*Process, string) {
	t.Helper()
	p := start(t, "echo")
	require.Eventually(t, func() bool { return strings.HasSuffix(p.Output(), "\n") }, patience, time.Millisecond)
	return p, strings.TrimSpace(p.Output())
}

func TestKill(t *testing.T) {
	p, address := listening(t)
	conn := connect(t, address)
	send(t, conn, "alive")
	hears(t, conn, "alive")
	began := time.Now()

	at, err := p.Kill()
	require.NoError(t, err)
	require.WithinRange(t, at, began, time.Now())
	require.False(t, p.Running())
	require.Equal(t, "signal: killed", p.State())
	code, err := p.Exit(patient(t))
	require.NoError(t, err)
	require.Equal(t, -1, code)
	require.Error(t, ends(t, conn))
	_, err = net.Dial("tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestFrozenProcessIsSilent(t *testing.T) {
	p, address := listening(t)
	conn := connect(t, address)
	_, err := p.Freeze()
	require.NoError(t, err)
	require.True(t, p.Running())
	send(t, conn, "hello")
	late := connect(t, address) // the kernel accepts it
	send(t, late, "me too")
	quiet(t, conn)
	quiet(t, late)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = p.Exit(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	_, err = p.Thaw()
	require.NoError(t, err)
	hears(t, conn, "hello")
	hears(t, late, "me too")
}

// TestFreezeStopsEveryThread checks that Freeze returns only when the last thread stands still.
func TestFreezeStopsEveryThread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	require.NoError(t, os.WriteFile(path, make([]byte, threads*8), 0o600))
	counters, err := shared(path)
	require.NoError(t, err)
	read := func() (out [threads]int64) {
		for i := range counters {
			out[i] = atomic.LoadInt64(&counters[i])
		}
		return out
	}
	moves := func(since [threads]int64) func() bool {
		return func() bool {
			now := read()
			for i := range now {
				if now[i] == since[i] {
					return false
				}
			}
			return true
		}
	}
	p := start(t, "count "+path)
	for range 20 {
		require.Eventually(t, moves(read()), patience, time.Millisecond, "all threads count")
		_, err := p.Freeze()
		require.NoError(t, err)
		still := read()
		_, err = p.Freeze() // freezing twice equals once
		require.NoError(t, err)
		<-time.After(2 * time.Millisecond)
		require.Equal(t, still, read())
		_, err = p.Thaw()
		require.NoError(t, err)
	}
	require.Eventually(t, moves(read()), patience, time.Millisecond)
	_, err = p.Freeze()
	require.NoError(t, err)
	_, err = p.Kill() // a frozen process dies as well
	require.NoError(t, err)
}
