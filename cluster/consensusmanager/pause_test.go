package consensusmanager

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// laterTerm is a mirror that knows a later raft term than that of any lease, so etcd may have revoked it early.
type laterTerm struct{}

func (laterTerm) KnownRevision() int64                              { return 0 }
func (laterTerm) KnownTerm() uint64                                 { return 1 << 40 }
func (laterTerm) ObserveHeader(*etcdserverpb.ResponseHeader, int64) {}
func (laterTerm) Proxied() bool                                     { return false }

// After a pause that etcd has not confirmed to be harmless, a node does not say that it owns the shard at this instant.
// Comparisons for etcd are still made, because etcd decides on them.
func TestShardIsNotOwnedAfterAPause(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	var stood atomic.Int64
	s, err := etcdsession.Open(etcdtest.Context(t), etcdsession.Config{TTL: 30 * time.Second, View: laterTerm{},
		Process: etcd.Process{Client: etcdtest.Dial(t, server.Endpoint()),
			Clock: func() deadline.Instant { return deadline.Now().Add(time.Duration(stood.Load())) }}})
	require.NoError(t, err)
	defer func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		require.Error(t, s.Close(gone), "etcd is away")
	}()
	slot := &shardSlot{phase: phaseServing, epoch: 7, period: s.Period()}
	require.True(t, slot.ownsEpochNow(7))
	require.NoError(t, server.Close())
	stood.Store(int64(2 * time.Second))
	require.False(t, slot.holdsEpoch(7))
	require.False(t, slot.ownsEpochNow(7))
	require.True(t, slot.ownsEpoch(7))
}
