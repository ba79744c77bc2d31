package member

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A drained member takes nothing over, but plans for others as before.
func TestDrainedMemberStillPlans(t *testing.T) {
	m := &Member{cfg: Config{Process: etcd.Process{Address: "a:1"},
		Settings: consensusmanager.Settings{Planning: shardplan.Settings{Shards: 8192}}}}
	record := state.Record{Shards: 8192}
	own := &state.Member{Address: m.cfg.Address, Incarnation: 1, Record: record}
	taker := &state.Member{Address: "b:1", Incarnation: 2, Record: record} // an observer
	drained := &state.Member{Address: "c:1", Incarnation: 3, Record: record}
	drained.Lease, drained.Draining = 3, true
	queue := []*state.Candidate{{KeyLease: 3, Lease: 3, Address: "c:1", CreateRevision: 4}}
	require.True(t, m.canHandOver(&state.Snapshot{Members: []*state.Member{own, taker, drained}, Queue: queue}))
	require.False(t, m.canHandOver(&state.Snapshot{Members: []*state.Member{own, taker}}), "nobody plans")
	require.False(t, m.canHandOver(&state.Snapshot{Members: []*state.Member{own, drained}, Queue: queue}),
		"nobody takes them")
	stopping := *drained
	stopping.Stopping = true
	require.False(t, m.canHandOver(&state.Snapshot{Members: []*state.Member{own, taker, &stopping}, Queue: queue}))
}
