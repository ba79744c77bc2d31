package crash

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A member that stops takes back its own marks of silent members at once: they are of no use without their watcher, and
// its session may stand until running calls have ended.
func TestStopErasesMarks(t *testing.T) {
	s := newTestBed(t)
	m := watchcache.New(watchcache.Config{Process: etcd.Process{Client: s.client, Keys: s.keys}})
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	go func() { _ = m.Run(ctx); close(ended) }()
	<-m.Ready()
	d := New(Config{Process: etcd.Process{Client: s.client, Address: "x:1"}, Mirror: m, Keeper: s.keeper, InstanceID: "x"})
	d.Start()
	mark := state.SilenceRecord{Incarnation: s.accused.Incarnation, SilentMS: 2000}.Encode()
	for _, watcher := range []string{"x", "other"} {
		_, err := s.client.Put(s.ctx, s.keys.Silence("a:1", watcher), mark, clientv3.WithLease(s.accuser.Lease))
		require.NoError(t, err)
	}
	_, err := m.Wait(s.ctx, func(snap *state.Snapshot) bool { return len(snap.Silences) == 2 })
	require.NoError(t, err)
	d.Stop(etcdtest.Context(t))
	left := s.left(t)
	require.NotContains(t, left, s.keys.Silence("a:1", "x"))
	require.Contains(t, left, s.keys.Silence("a:1", "other"))
	cancel()
	<-ended
}
