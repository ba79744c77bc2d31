package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/request"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/etcdtest"
)

// A request about a member that is not registered any more is not written.
func TestDrainRequestForAMemberThatIsGone(t *testing.T) {
	etcd := etcdtest.Start(t)
	c := start(t, etcd)
	own := awaitState(t, c, func(s *state.Snapshot) bool { return s.Member(c.address()) != nil }).Member(c.address())
	lease, err := etcd.Client().Grant(etcdtest.Context(t), 60)
	require.NoError(t, err)
	former := *own
	former.Incarnation--
	_, err = request.Drain(etcdtest.Context(t), etcd.Client(), c.keys, lease.ID, &former, false)
	require.ErrorIs(t, err, request.ErrMemberGone)
	withdraw, err := request.Drain(etcdtest.Context(t), etcd.Client(), c.keys, lease.ID, own, false)
	require.NoError(t, err)
	awaitState(t, c, func(s *state.Snapshot) bool { return s.Member(c.address()).Draining })
	withdraw()
	awaitState(t, c, func(s *state.Snapshot) bool { return s.Drain(c.address()) == nil })
	require.NoError(t, c.parts.Load().member.Recorded(etcdtest.Context(t)))
	require.True(t, inside{c}.Snapshot().Member(c.address()).Draining, "the member that was asked keeps to it")
}

// A drained member takes nothing over, and plans for others as before.
func TestDrainedMemberStillPlans(t *testing.T) {
	c := newCluster(t, etcdtest.Start(t), "127.0.0.1:9")
	record := state.Record{Shards: 8192}
	own := &state.Member{Address: c.address(), Incarnation: 1, Record: record}
	taker := &state.Member{Address: "b:1", Incarnation: 2, Record: record} // an observer
	drained := &state.Member{Address: "c:1", Incarnation: 3, Record: record}
	drained.Lease, drained.Draining = 3, true
	queue := []*state.Candidate{{KeyLease: 3, Lease: 3, Address: "c:1", CreateRevision: 4}}
	require.True(t, c.canHandOver(&state.Snapshot{Members: []*state.Member{own, taker, drained}, Queue: queue}))
	require.False(t, c.canHandOver(&state.Snapshot{Members: []*state.Member{own, taker}}), "nobody plans")
	require.False(t, c.canHandOver(&state.Snapshot{Members: []*state.Member{own, drained}, Queue: queue}),
		"nobody takes them")
	stopping := *drained
	stopping.Stopping = true
	require.False(t, c.canHandOver(&state.Snapshot{Members: []*state.Member{own, taker, &stopping}, Queue: queue}))
}
