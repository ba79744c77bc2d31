// Package basetest provides the base of an election, for tests of elections without a node: a mirror of the
// cluster and sessions with etcd.
//
// Not promised: the rest of a node. No process is registered, so there are no members, and no member lingers.
package basetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// Base is a running mirror and keeper.
type Base struct {
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper

	stop func()
}

// Start starts a mirror and a keeper with sessions of the given TTL. They are stopped when the test ends.
func Start(t testing.TB, client *clientv3.Client, prefix string, ttl time.Duration) *Base {
	t.Helper()
	keys, err := state.NewKeys(prefix)
	require.NoError(t, err)
	process := etcd.Process{Client: client, Keys: keys}
	m := watchcache.New(watchcache.Config{Process: process})
	k, err := etcdsession.NewKeeper(etcdsession.Config{Process: process, TTL: ttl, View: m}, etcdsession.Hooks{
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

// Stop ends the session, the keeper and the mirror. Stopping again is harmless.
func (b *Base) Stop() { b.stop() }
