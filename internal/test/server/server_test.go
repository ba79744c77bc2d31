//go:build unix

package server

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/port"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errNotYet = errors.New("not yet")

func TestStart(t *testing.T) {
	asked := 0
	p, err := Start(t.Context(), exec.Command("sleep", "60"), func(context.Context) error {
		if asked++; asked < 3 {
			return errNotYet
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, p.Running())
	require.NoError(t, p.Close())
}

// TestServerThatDoesNotStart checks that Start fails for a program that ends, and kills a server that does not
// answer.
func TestServerThatDoesNotStart(t *testing.T) {
	never := func(context.Context) error { return errNotYet }
	_, err := Start(t.Context(), exec.Command("sh", "-c", "echo no such option; exit 3"), never)
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "no such option")
	_, err = Start(t.Context(), exec.Command("no-such-program"), never)
	require.Error(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.Command("sh", "-c", "echo busy; exec sleep 60")
	_, err = Start(ctx, cmd, func(context.Context) error {
		cancel()
		return errNotYet
	})
	require.ErrorIs(t, err, errNotYet)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, syscall.Kill(cmd.Process.Pid, 0), syscall.ESRCH)
}

// TestDraw checks that Draw tries another port if a program has taken the first one, and returns other errors.
func TestDraw(t *testing.T) {
	drawn, listeners := 0, []net.Listener{}
	err := Draw(func(number string) error {
		drawn++
		l, err := net.Listen("tcp", net.JoinHostPort(Host, number))
		require.NoError(t, err)
		listeners = append(listeners, l)
		if drawn < 3 {
			return errNotYet
		}
		return nil
	})
	for _, l := range listeners {
		require.NoError(t, l.Close())
	}
	require.NoError(t, err)
	require.Equal(t, 3, drawn)

	drawn = 0
	require.Equal(t, errNotYet, Draw(func(number string) error {
		drawn++
		require.NoError(t, port.Probe(net.JoinHostPort(Host, number)))
		return errNotYet
	}))
	require.Equal(t, 1, drawn)
}
