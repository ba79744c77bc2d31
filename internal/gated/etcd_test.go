//go:build linux || darwin || freebsd || openbsd || dragonfly

package gated

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/embedetcd"
)

// startEtcd starts one for a test that runs beside others, with a context that ends only if the test
// hangs. Both end with the test.
func startEtcd(t *testing.T) (context.Context, *embedetcd.Server, state.Keys) {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	server, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	return ctx, server, keys
}
