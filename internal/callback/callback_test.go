package callback

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	t.Parallel()
	require.NoError(t, Run(func() error { return nil }))
	require.ErrorIs(t, Run(func() error { return io.EOF }), io.EOF)
	require.ErrorIs(t, Run(func() error { runtime.Goexit(); return nil }), ErrExited)
	err := Run(func() error { panic(io.EOF) })
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "panic: EOF")
	require.Contains(t, panicStack(err), "callback_test.go")
	require.EqualError(t, Run(func() error { panic("text") }), "panic: text")
	require.Empty(t, panicStack(errors.New("another")))
}

func TestFinish(t *testing.T) {
	t.Parallel()
	ran := false
	require.NoError(t, RunUnrecovered(func() { ran = true }))
	require.True(t, ran)
	require.ErrorIs(t, RunUnrecovered(runtime.Goexit), ErrExited)
}

func TestWithin(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, RunWithin(t.Context(), func() error { runtime.Goexit(); return nil }), ErrExited)
	ctx, cancel := context.WithCancelCause(t.Context())
	release, ended := make(chan struct{}), make(chan struct{})
	cancel(io.EOF)
	require.ErrorIs(t, RunWithin(ctx, func() error { defer close(ended); <-release; return nil }), io.EOF)
	close(release)
	<-ended
}
