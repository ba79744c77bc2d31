package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A request about a member that is no longer registered is not written.
func TestDrainRequestForAMemberThatIsGone(t *testing.T) {
	etcd := etcdtest.Start(t)
	c := start(t, etcd)
	own := awaitState(t, c, func(s *state.Snapshot) bool { return s.Member(c.address()) != nil }).Member(c.address())
	lease, err := etcd.Client().Grant(etcdtest.Context(t), 60)
	require.NoError(t, err)
	former := *own
	former.Incarnation--
	err = request.Drain(etcdtest.Context(t), etcd.Client(), c.keys, lease.ID, &former, false)
	require.ErrorIs(t, err, request.ErrMemberGone)
	require.NoError(t, request.Drain(etcdtest.Context(t), etcd.Client(), c.keys, lease.ID, own, false))
	awaitState(t, c, func(s *state.Snapshot) bool { return s.Member(c.address()).Draining })
	_, err = etcd.Client().Revoke(etcdtest.Context(t), lease.ID)
	require.NoError(t, err)
	awaitState(t, c, func(s *state.Snapshot) bool { return s.DrainOf(c.address()) == nil })
	require.NoError(t, c.parts.Load().Membership.AwaitRecorded(etcdtest.Context(t)))
	require.True(t, inspect.Snapshot(c).Member(c.address()).Draining, "the member that was asked keeps to it")
}
