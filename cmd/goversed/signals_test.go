//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

func TestSignals(t *testing.T) {
	ctx, cut, release := withSignals(context.Background())
	signalSelf(t)
	<-ctx.Done()
	require.NoError(t, cut.Err())
	release()
	require.Error(t, cut.Err())

	ctx, cut, release = withSignals(context.Background())
	release()
	require.Error(t, ctx.Err())
	require.Error(t, cut.Err())

	parent, cancel := context.WithCancel(context.Background())
	ctx, cut, release = withSignals(parent)
	cancel()
	<-ctx.Done()
	require.NoError(t, cut.Err(), "the end of the parent asks for a graceful stop")
	release()
}

// A reload that hangs, on a hanging file system, delays the end of the process by at most a second.
func TestHangupWhileAFileDoesNotCome(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored, as under nohup")
	}
	began, gate := make(chan struct{}), make(chan struct{})
	release := onHangup(func() { close(began); <-gate })
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-began
	released := make(chan struct{})
	go func() { defer close(released); release() }()
	select {
	case <-released:
	case <-time.After(10 * time.Second):
		t.Error("the end waits for the reload")
	}
	close(gate)
	<-released
}

func TestSecondSignal(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	cut, stopAtOnce := context.WithCancel(context.Background())
	defer stop()
	defer stopAtOnce()
	// Unbuffered: when a signal is received, the one before has been handled.
	signals, times, done := make(chan os.Signal), make(chan time.Time), make(chan struct{})
	go func() {
		defer close(done)
		relaySignals(signals, nil, func() time.Time { return <-times }, stop, stopAtOnce)
	}()
	began := time.Now()
	comes := func(after time.Duration) {
		t.Helper()
		select {
		case signals <- syscall.SIGTERM:
			times <- began.Add(after)
		case <-done:
			require.FailNow(t, "nobody listens any more")
		}
	}
	comes(0)
	<-ctx.Done()
	comes(time.Millisecond)
	comes(cli.SecondSignalAfter - 1)
	require.NoError(t, cut.Err(), "one request, made twice")
	comes(cli.SecondSignalAfter)
	<-done
	require.Error(t, cut.Err())
}
