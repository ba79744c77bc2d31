package cluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/member/request"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// operatorsLease grants a lease like that of a program that is not a member.
func operatorsLease(t *testing.T, c *clustertest.Cluster) clientv3.LeaseID {
	t.Helper()
	resp, err := c.Client().Grant(etcdtest.Context(t), 60)
	require.NoError(t, err)
	return resp.ID
}

// askDrain requests that n drains, or with undo that it stops draining.
func askDrain(t *testing.T, c *clustertest.Cluster, lease clientv3.LeaseID, n *clustertest.Node,
	undo bool) (withdraw func()) {
	t.Helper()
	own := member(c, n)
	require.NotNil(t, own)
	require.NoError(t, request.Drain(etcdtest.Context(t), c.Client(), nodetest.Keys, lease, own, undo))
	return func() {
		_, err := c.Client().Delete(etcdtest.Context(t), nodetest.Keys.Drain(n.Address()))
		require.NoError(t, err)
	}
}

// member returns n as the others see it.
func member(c *clustertest.Cluster, n *clustertest.Node) *state.Member {
	return inspect.Snapshot(c.Live()[0].Cluster()).Member(n.Address())
}

// drained reports whether n is drained, holds no shard, and the others serve all shards.
func drained(c *clustertest.Cluster, n *clustertest.Node) func() bool {
	return func() bool {
		own := member(c, n)
		_, none, twice := nodetest.CountServed(c)
		return own != nil && own.Draining && none == 0 && twice == 0 && n.Cluster().Shards().Held() == 0
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, nodetest.WithSharding(cluster.Sharding{Shards: 64, Window: 20 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 3), "three share")
	leader, lease := c.Node(0), operatorsLease(t, c)
	c.WaitLeaderIs(leader.Address())
	term, leads := leader.Cluster().Term()
	require.True(t, leads)

	withdraw := askDrain(t, c, lease, leader, false)
	c.Eventually(drained(c, leader), "the leader has none, the others all")
	withdraw()
	c.Eventually(func() bool { return inspect.Snapshot(leader.Cluster()).DrainOf(leader.Address()) == nil },
		"the request is gone")
	require.True(t, term.Valid(), "it leads on")

	// The drained leader plans for members that join and leave, and gets no shard.
	fourth := c.AddNode()
	c.Eventually(func() bool { return fourth.Cluster().Shards().Held() >= 64/3 && drained(c, leader)() },
		"a fourth gets its share of three")
	fourth.Stop()
	c.Eventually(drained(c, leader), "the others have all again")
	require.True(t, term.Valid())

	withdraw = askDrain(t, c, lease, leader, true)
	c.Eventually(nodetest.IsBalanced(c, 3), "three share again")
	withdraw()
	require.True(t, term.Valid())

	// A drained node can be stopped too.
	askDrain(t, c, lease, leader, false)
	c.Eventually(drained(c, leader), "it is drained once more")
	leader.Stop()
	c.WaitLeaderIs(c.Node(1).Address())
	c.Eventually(nodetest.IsBalanced(c, 2), "two share")
	_, err := c.Client().Revoke(etcdtest.Context(t), lease)
	require.NoError(t, err)
}

// A drained node keeps draining when the request ends with its author's lease, and when the node has to register
// anew.
func TestDrainOutlivesItsRequestAndTheSession(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, nodetest.WithSharding(cluster.Sharding{Shards: 64, Window: 20 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 2), "two share")
	other, n, lease := c.Node(0), c.Node(1), operatorsLease(t, c)
	askDrain(t, c, lease, n, false)
	c.Eventually(drained(c, n), "it has none")
	_, err := c.Client().Revoke(etcdtest.Context(t), lease)
	require.NoError(t, err)
	c.Eventually(func() bool { return inspect.Snapshot(n.Cluster()).DrainOf(n.Address()) == nil }, "the request is gone")

	former := member(c, n).Incarnation
	c.RevokeLease(n)
	c.Eventually(func() bool { m := member(c, n); return m != nil && m.Incarnation != former }, "it registers anew")
	require.True(t, member(c, n).Draining)
	c.Eventually(func() bool { return len(inspect.Snapshot(other.Cluster()).Queue) == 2 }, "it queues again")
	third := c.AddNode()
	c.Eventually(func() bool { return third.Cluster().Shards().Held() == 32 && drained(c, n)() },
		"the load is rebalanced, and none is its")
}

// A request names an incarnation, and does not apply to the next one.
func TestDrainOfAFormerIncarnation(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, nodetest.WithSharding(cluster.Sharding{Shards: 64, Window: 20 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 3), "three share")
	n, lease := c.Node(1), operatorsLease(t, c)
	void := state.DrainRecord{Incarnation: member(c, n).Incarnation - 1}
	_, err := c.Client().Put(etcdtest.Context(t), nodetest.Keys.Drain(n.Address()), void.Encode(),
		clientv3.WithLease(lease))
	require.NoError(t, err)
	// Both changes arrive by one watch: a node that saw the second has seen the first.
	askDrain(t, c, lease, c.Node(2), false)
	c.Eventually(drained(c, c.Node(2)), "the other one is drained")
	c.Eventually(func() bool { return inspect.Snapshot(n.Cluster()).DrainOf(c.Node(2).Address()) != nil },
		"it sees both requests")
	require.NotNil(t, inspect.Snapshot(n.Cluster()).DrainOf(n.Address()))
	c.Eventually(func() bool { return n.Cluster().Shards().Held() == 32 }, "it has its share of two")
	require.False(t, member(c, n).Draining)
	_, err = c.Client().Revoke(etcdtest.Context(t), lease)
	require.NoError(t, err)
}

// blockedShard keeps one of n's shards from being released until end is called.
func blockedShard(t *testing.T, n *clustertest.Node) (end func()) {
	t.Helper()
	shards, key := n.Cluster().Shards(), "a"
	for {
		if owner, ok := shards.Owner(key); ok && owner.Address == n.Address() {
			break
		}
		key += "a"
	}
	inside, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, shards.Serve(context.Background(), key, func(context.Context, int64) error {
			close(inside)
			<-over
			return nil
		}))
	}()
	<-inside
	return sync.OnceFunc(func() {
		close(over)
		<-ended
	})
}

// A stopped node gets no updates, so its own calls that wait for a drain end with it.
func TestDrainEndsWithTheNodeThatWasCalled(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, nodetest.WithSharding(cluster.Sharding{Shards: 16, Window: 20 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 2), "two share")
	n, from := c.Node(0), c.Node(1)
	end := blockedShard(t, n)
	defer end()
	failed := make(chan error, 1)
	go func() {
		_, err := from.Cluster().Drain(context.Background(), n.Address())
		failed <- err
	}()
	c.Eventually(func() bool { m := member(c, n); return m != nil && m.Draining && n.Cluster().Shards().Held() == 1 },
		"it drains, but for what does not end")
	from.Stop()
	err := received(t, failed)
	require.ErrorIs(t, err, cluster.ErrStopped)
	require.ErrorIs(t, err, cluster.ErrNotEmpty, "it goes on draining")
}

// The same for a call that waits for a session while etcd is away.
func TestDrainWithoutASessionEndsWithTheNodeThatWasCalled(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, nodetest.WithSharding(cluster.Sharding{Shards: 16, Window: 20 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 2), "two share")
	n, from := c.Node(0), c.Node(1)
	from.Faults().CutOff()
	c.Eventually(func() bool { return from.Lease() == 0 }, "its session is lost")
	failed := make(chan error, 2)
	for _, call := range []func(context.Context, string) (cluster.Drained, error){from.Cluster().Drain,
		from.Cluster().Undrain} {
		go func() {
			_, err := call(context.Background(), n.Address())
			failed <- err
		}()
	}
	brief, cancel := context.WithTimeout(etcdtest.Context(t), 100*time.Millisecond)
	defer cancel()
	require.Error(t, from.StopContext(brief), "etcd does not answer")
	for range 2 {
		require.ErrorIs(t, received(t, failed), cluster.ErrStopped)
	}
}

// received returns the next value of c, which must arrive in time.
func received(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-etcdtest.Context(t).Done():
		t.Fatal("it goes on waiting")
		return nil
	}
}
