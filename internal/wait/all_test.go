package wait

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), 0
	run := RunAll(func(context.Context) { began <- struct{}{} }, func(ctx context.Context) {
		<-began
		cancel()
		<-ctx.Done()
		ended++
	})
	run(ctx)
	require.Equal(t, 1, ended)
}
