package crash

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/watchcache"
)

// silentWatch is a watch on a process that sends no heartbeat though it could.
type silentWatch struct{ Watch }

func (silentWatch) Heartbeats() bool { return true }
func (silentWatch) Heard() uint64    { return 0 }

// A mark of a member that is gone is refused, so no event will ever show it. The next marks do not wait for one.
func TestRefusedMarkIsNotAwaited(t *testing.T) {
	s := newTestBed(t)
	ctx, cancel := context.WithCancel(s.ctx)
	m := watchcache.New(watchcache.Config{Process: etcd.Process{Client: s.client, Keys: s.keys}})
	mirrorEnded, keeperEnded := make(chan struct{}), make(chan struct{})
	watching, stopWatching := context.WithCancel(ctx)
	go func() { _ = m.Run(watching); close(mirrorEnded) }()
	go func() { _ = s.keeper.Run(ctx); close(keeperEnded) }()
	defer func() { cancel(); <-keeperEnded }()
	<-m.Ready()
	_, err := s.keeper.Wait(ctx, nil)
	require.NoError(t, err)
	d := New(Config{Process: etcd.Process{Client: s.client, Address: "x:1"}, Mirror: m, Keeper: s.keeper, InstanceID: "x"})
	w := newWatchedMember(d, s.accused, 0)
	w.heartbeats.watchOpened(silentWatch{})
	d.cases["a:1"] = w
	for now := time.Now(); len(d.silentMembers(now)) == 0; {
		now = now.Add(heartbeat.CheckEvery)
	}
	stopWatching() // the snapshot remains as it is
	<-mirrorEnded
	_, err = s.client.Revoke(ctx, clientv3.LeaseID(s.accused.Lease))
	require.NoError(t, err)
	began := time.Now()
	d.writeMarks(m.Snapshot())
	require.Less(t, time.Since(began), marksRetry)
	require.NotContains(t, s.left(t), s.keys.Silence("a:1", "x"))
}
