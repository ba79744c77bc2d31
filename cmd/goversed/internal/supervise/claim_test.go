//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
)

// The lease of a lost session may still exist in etcd. It is revoked only when nothing of the command that ran
// under it is left; otherwise the next command would run beside it.
func TestNothingIsRevokedBesideACommand(t *testing.T) {
	ctx, server, keys := startEtcd(t)
	for _, cfg := range []Config{{Lock: "it"}, {Election: "it"}} {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
		require.NoError(t, err)
		cfg.Keys, cfg.TTL = keys, 20*time.Second
		c, err := newEtcdClaim(cfg.withDefaults(), client)
		require.NoError(t, err)
		h, err := c.acquire(ctx)
		require.NoError(t, err)
		stands := func() bool {
			resp, err := server.Client().Get(ctx, h.key)
			require.NoError(t, err)
			require.True(t, resp.Count == 0 || resp.Kvs[0].CreateRevision == h.token)
			return resp.Count == 1
		}

		ended := c.beginCommand()
		h.session.(etcdHolderSession).EndLocally(session.ReasonUnreachable, errors.New("injected"))
		<-h.ctx.Done()
		require.ErrorIs(t, context.Cause(h.ctx), session.ErrLost)
		_, ok := guardDeadline(h)
		require.False(t, ok)
		require.Eventually(t, func() bool { return c.store.(*etcdStore).keeper.LostSessions() == 1 }, time.Minute,
			time.Millisecond)
		for range 100 { // enough time for a revocation
			require.True(t, stands(), "it was revoked too early")
		}
		ended()
		h.declareIdle()
		require.Eventually(t, func() bool { return !stands() }, time.Minute, time.Millisecond)

		again, err := c.acquire(ctx) // on the next session
		require.NoError(t, err)
		require.Greater(t, again.token, h.token)
		again.declareIdle()
		c.close()
		resp, err := server.Client().Get(ctx, again.key)
		require.NoError(t, err)
		require.Zero(t, resp.Count, "the end of the session gives it up")
	}
}
