// Package basetest is what an election stands on, for tests of elections without a node: a mirror of the cluster and
// sessions with etcd.
//
// Not promised: what a node adds to it. Nobody is registered, so nobody is a member, and no member lingers.
package basetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// Base is a mirror and a keeper that run.
type Base struct {
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper

	stop func()
}

// Start starts them, with sessions of that TTL. They are stopped with the test.
func Start(t testing.TB, client *clientv3.Client, prefix string, ttl time.Duration) *Base {
	t.Helper()
	keys, err := state.NewKeys(prefix)
	require.NoError(t, err)
	m := watchcache.New(watchcache.Config{Client: client, Keys: keys})
	k, err := etcdsession.NewKeeper(etcdsession.KeeperConfig{
		Config: etcdsession.Config{Client: client, TTL: ttl, ReadKey: keys.Request(), KnownRevision: m.Known,
			OnRead: m.Saw, Proxied: m.Proxied},
		OnLost: func(_ *etcdsession.Session, lost *session.LostError) {
			if lost.Reason == session.ReasonOtherHistory {
				m.Rebuild("etcd's history is another one")
			}
		},
	})
	require.NoError(t, err)
	keeping, stopKeeper := context.WithCancel(context.Background())
	mirroring, stopMirror := context.WithCancel(context.Background())
	var mirrored, kept sync.WaitGroup
	mirrored.Go(func() { _ = m.Run(mirroring) })
	kept.Go(func() {
		select {
		case <-m.Ready():
			_ = k.Run(keeping)
		case <-keeping.Done():
		}
	})
	b := &Base{Mirror: m, Keeper: k, stop: sync.OnceFunc(func() {
		stopKeeper()
		kept.Wait()
		stopMirror()
		mirrored.Wait()
	})}
	t.Cleanup(b.stop)
	return b
}

// Stop ends the session, and both. Stopping them again is harmless.
func (b *Base) Stop() { b.stop() }
