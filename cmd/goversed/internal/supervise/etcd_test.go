//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// startEtcd starts an etcd for a parallel test, with a context that ends only if the test hangs. Both end with
// the test.
func startEtcd(t *testing.T) (context.Context, *etcdtest.Server, state.Keys) {
	t.Helper()
	t.Parallel()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	return etcdtest.Context(t), etcdtest.Start(t), keys
}
