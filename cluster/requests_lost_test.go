package cluster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// lostRequest is a kind of request that a node makes by a key.
type lostRequest struct {
	name, key string
	make      func(ctx context.Context) error
	inTime    error // error if nothing came of the request in time
}

// askingOfLeader returns two nodes and the requests that the second one makes of the first, the leader.
func askingOfLeader(t *testing.T) (c *clustertest.Cluster, from *clustertest.Node, requests []lostRequest) {
	t.Helper()
	c = clustertest.New(t, 2, clustertest.WithTTL(nodetest.LongTTL),
		nodetest.WithSharding(cluster.Sharding{Shards: 16, Window: 20 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 2), "two share")
	leader, from := c.Node(0), c.Node(1)
	c.WaitQueue(leader.Address(), from.Address())
	return c, from, []lostRequest{
		{"drain", nodetest.Keys.Drain(leader.Address()), func(ctx context.Context) error {
			_, err := from.Cluster().Drain(ctx, leader.Address())
			return err
		}, cluster.ErrNoAnswer},
		{"undrain", nodetest.Keys.Drain(leader.Address()), func(ctx context.Context) error {
			_, err := from.Cluster().Undrain(ctx, leader.Address())
			return err
		}, cluster.ErrNoAnswer},
		{"transfer", nodetest.Keys.Request(), func(ctx context.Context) error {
			return from.Cluster().Transfer(ctx, from.Address())
		}, leaderelection.ErrNotMoved},
	}
}

// revisionOf returns the revision at which the key was written, 0 if etcd does not have it.
func revisionOf(t *testing.T, c *clustertest.Cluster, key string) int64 {
	t.Helper()
	resp, err := c.Client().Get(etcdtest.Context(t), key)
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].ModRevision
}

// stands reports whether etcd has the key.
func stands(t *testing.T, c *clustertest.Cluster, key string) bool {
	t.Helper()
	return revisionOf(t, c, key) != 0
}

// A request that lost its answer exists in etcd, but is not left there for the lifetime of the node.
func TestRequestOfWhichTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	c, from, requests := askingOfLeader(t)
	for _, r := range requests {
		ctx, cancel := context.WithCancelCause(etcdtest.Context(t))
		defer cancel(nil)
		enough, failed := errors.New("enough"), make(chan error, 1)
		from.Faults().LoseAnswer(clustertest.OpTxn, clustertest.Putting(r.key))
		go func() { failed <- r.make(ctx) }()
		c.Eventually(func() bool { return stands(t, c, r.key) }, "the %s is asked for", r.name)
		cancel(enough)
		err := received(t, failed)
		require.ErrorIs(t, err, r.inTime, r.name)
		require.ErrorIs(t, err, enough, r.name)
		require.False(t, stands(t, c, r.key), r.name)
	}
}

// A request that reaches etcd after its caller has stopped waiting is refused.
func TestRequestThatIsStillInFlight(t *testing.T) {
	t.Parallel()
	c, from, requests := askingOfLeader(t)
	for _, r := range requests {
		ctx, cancel := context.WithCancel(etcdtest.Context(t))
		defer cancel()
		held, failed := from.Faults().HoldNext(clustertest.OpTxn, clustertest.Putting(r.key)), make(chan error, 1)
		go func() { failed <- r.make(ctx) }()
		nodetest.AwaitCaught(t, held)
		cancel()
		require.ErrorIs(t, received(t, failed), r.inTime, r.name)
		require.ErrorIs(t, held.Release(etcdtest.Context(t)), rpctypes.ErrLeaseNotFound, r.name)
		require.False(t, stands(t, c, r.key), r.name)
	}
	require.False(t, member(c, c.Node(0)).Draining)
	c.WaitLeaderIs(c.Node(0).Address())
}

// A stopping node leaves no requests behind.
func TestRequestsEndWithTheirNode(t *testing.T) {
	t.Parallel()
	c, from, requests := askingOfLeader(t)
	failed := make(chan error, len(requests))
	for _, r := range requests {
		before := revisionOf(t, c, r.key)
		from.Faults().LoseAnswer(clustertest.OpTxn, clustertest.Putting(r.key))
		go func() { failed <- r.make(context.Background()) }()
		c.Eventually(func() bool { return revisionOf(t, c, r.key) > before }, "the %s is asked for", r.name)
	}
	from.Stop()
	for _, r := range requests {
		require.ErrorIs(t, received(t, failed), cluster.ErrStopped)
		require.Zero(t, revisionOf(t, c, r.key), r.name)
	}
}

// A request without its lease has no effect any more.
func TestRequestWhoseLeaseIsLost(t *testing.T) {
	t.Parallel()
	c, _, requests := askingOfLeader(t)
	c.Node(0).Faults().FreezeWatch()
	defer c.Node(0).Faults().ThawWatch()
	for _, r := range requests {
		if r.name == "undrain" {
			continue // not drained, so already done
		}
		failed := make(chan error, 1)
		go func() { failed <- r.make(context.Background()) }()
		c.Eventually(func() bool { return stands(t, c, r.key) }, "the %s is asked for", r.name)
		resp, err := c.Client().Get(etcdtest.Context(t), r.key)
		require.NoError(t, err)
		_, err = c.Client().Revoke(etcdtest.Context(t), clientv3.LeaseID(resp.Kvs[0].Lease))
		require.NoError(t, err)
		require.ErrorIs(t, received(t, failed), r.inTime, r.name)
	}
}
