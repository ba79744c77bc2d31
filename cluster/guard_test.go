package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// few makes shards move at once, without waiting for members.
func few(shards int) clustertest.Option {
	return clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: shards, Window: time.Millisecond, DrainTimeout: time.Second,
			MovesPerMinute: 1 << 20}
	})
}

// A transaction of a shard's owner commits while it owns the shard, also after a new map that left the shard
// alone, and while the shard is handed over. After that it never commits.
func TestShardTransactions(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	c := clustertest.New(t, 1, few(8))
	first := c.Node(0).Cluster()
	put := clientv3.OpPut("/guarded", "x")
	var epoch int64
	number := -1
	moved := make(chan struct{})
	key := "a"
	// It is not known which shard the second node will get, so find one that stays as well.
	require.NoError(t, first.Shards().Hold(ctx, key, func(context.Context, int64) error { return nil }))
	number = first.Shards().Shard(key)
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- first.Shards().Serve(ctx, key, func(_ context.Context, e int64) error {
			epoch = e
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	commit := func() error {
		resp, err := first.Shards().Ownership(number, epoch).Txn(ctx).Then(put).Commit()
		if err == nil {
			require.True(t, resp.Succeeded)
		}
		return err
	}
	require.NoError(t, commit())
	owned := first.Shards().Ownership(number, epoch)
	stale := owned.Guard()
	resp, err := c.Client().Txn(ctx).If(stale...).Then(put).Commit()
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	// The caller's own comparisons are evaluated separately.
	resp, err = owned.Txn(ctx).If(clientv3.Compare(clientv3.Version("/guarded"), "=",
		0)).Then(put).Else(clientv3.OpGet("/guarded")).Commit()
	require.NoError(t, err)
	require.False(t, resp.Succeeded)
	require.Len(t, resp.Responses[0].GetResponseRange().Kvs, 1)
	// Another epoch is not this owner's.
	require.True(t, owned.Valid())
	other := first.Shards().Ownership(number, epoch-1)
	require.False(t, other.Valid())
	resp, err = c.Client().Txn(ctx).If(other.Guard()...).Then(put).Commit()
	require.NoError(t, err)
	require.False(t, resp.Succeeded)
	_, err = other.Txn(ctx).Then(put).Commit()
	require.ErrorIs(t, err, shard.ErrNotOwner)

	// Add nodes until the shard is to move. It does not move while Serve runs.
	owners, err := first.Shards().WatchOwner(ctx, key)
	require.NoError(t, err)
	go func() {
		defer close(moved)
		for o := range owners {
			if o.Address != c.Node(0).Address() {
				return
			}
		}
	}()
	for i := 0; ; i++ {
		c.AddNode()
		require.NoError(t, commit(), "the shard is still this node's, whatever the map is")
		c.Eventually(func() bool { s, err := first.ShardTable(); return err == nil && s.Generation > int64(i+1) },
			"a map is written")
		select {
		case <-moved:
		case <-time.After(200 * time.Millisecond):
			if i < 7 {
				continue
			}
		}
		break
	}
	<-moved
	require.NoError(t, commit(), "it is handed over when Serve has returned")
	resp, err = c.Client().Txn(ctx).If(stale...).Then(put).Commit()
	require.NoError(t, err)
	require.False(t, resp.Succeeded, "the map is another one")
	guard := owned.Guard()
	close(leave)
	require.NoError(t, <-left)
	c.Eventually(func() bool {
		for _, n := range c.Nodes()[1:] {
			if _, serves := n.Cluster().Shards().Serves(number); serves {
				return true
			}
		}
		return false
	}, "another node serves it")
	require.ErrorIs(t, commit(), shard.ErrNotOwner)
	resp, err = c.Client().Txn(ctx).If(guard...).Then(put).Commit()
	require.NoError(t, err)
	require.False(t, resp.Succeeded, "a guard of before the release holds no more when the next owner serves")
}

// A transaction under a lock commits while the lock is held. After its loss or release nothing is written.
func TestLockTransactions(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	c := clustertest.New(t, 1, clustertest.WithTTL(10)) // the node looks for its keys a third of that later
	n := c.Node(0)
	commit := func(held lock.Held) (*clientv3.TxnResponse, error) {
		return held.Txn(ctx).If(clientv3.Compare(clientv3.Version("/under/lock"), "=", 0)).
			Then(clientv3.OpPut("/under/lock", "x")).Else(clientv3.OpGet("/under/lock")).Commit()
	}
	held, err := n.Cluster().Locks().Acquire(ctx, "l")
	require.NoError(t, err)
	resp, err := commit(held)
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	resp, err = commit(held)
	require.NoError(t, err, "the lock is held")
	require.False(t, resp.Succeeded, "it concerns the caller's own comparison")
	require.Len(t, resp.Responses[0].GetResponseRange().Kvs, 1)
	require.NoError(t, held.Release(ctx))
	_, err = commit(held)
	require.ErrorIs(t, err, lock.ErrReleased)

	held, err = n.Cluster().Locks().Acquire(ctx, "l")
	require.NoError(t, err)
	n.Faults().FreezeWatch() // so the node does not see the deletion
	_, err = c.Client().Delete(ctx, held.(etcdlock.Held).Key())
	require.NoError(t, err)
	_, err = commit(held)
	require.ErrorIs(t, err, lock.ErrLost, "etcd refuses it")
	require.True(t, held.Valid(), "the node does not know")
	n.Faults().Heal()
	<-held.Context().Done()
	_, err = commit(held)
	require.ErrorIs(t, err, lock.ErrLost)
	var lost *lock.LostError
	require.ErrorAs(t, held.Release(ctx), &lost)

	inMemory, err := new(lock.Memory).Acquire(ctx, "l")
	require.NoError(t, err)
	_, err = commit(inMemory)
	require.ErrorContains(t, err, "kept in memory", "it does not pretend to guard")
}

// The holder of a lock, and the leader of a named election, can guard their own transactions.
func TestGuards(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	c := clustertest.New(t, 1)
	n := c.Node(0).Cluster()
	writes := func(guard []clientv3.Cmp) bool {
		resp, err := c.Client().Txn(ctx).If(guard...).Then(clientv3.OpPut("/guarded", "x")).Commit()
		require.NoError(t, err)
		return resp.Succeeded
	}
	held, err := n.Locks().Acquire(ctx, "l")
	require.NoError(t, err)
	require.True(t, writes(held.Guard()))
	require.NoError(t, held.Release(ctx))
	require.False(t, writes(held.Guard()))

	e, err := n.Elections().Stand("e")
	require.NoError(t, err)
	require.NoError(t, e.Lead(ctx, func(_ context.Context, t2 leaderelection.Term) error {
		require.True(t, writes(t2.Guard()))
		return nil
	}))
	term, _ := e.Term()
	require.WithinDuration(t, time.Now(), term.AcquiredAt(), 10*time.Second)
	require.NoError(t, e.Withdraw(ctx))
	require.False(t, writes(term.Guard()))
	require.Equal(t, leaderelection.ReasonWithdrawn, leaderelection.ReasonOf(context.Cause(term.Context())))

	require.NoError(t, n.Lead(ctx, func(context.Context, leaderelection.Term) error { return nil }))
	own, _ := n.Term()
	require.True(t, writes(own.Guard()))
	require.NoError(t, n.Resign(ctx))
	require.False(t, writes(own.Guard()))
	require.Equal(t, leaderelection.ReasonResigned, leaderelection.ReasonOf(context.Cause(own.Context())))
}

// WaitForSession returns as soon as the session is valid; a new session follows after it was lost.
func TestWaitForSession(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	c := clustertest.New(t, 1)
	n := c.Node(0).Cluster()
	s, err := n.WaitForSession(ctx)
	require.NoError(t, err)
	require.True(t, s.Valid())
	_, err = c.Client().Revoke(ctx, s.ID())
	require.NoError(t, err)
	<-s.Context().Done()
	require.False(t, s.Valid())
	require.Error(t, s.Err())
	next, err := n.WaitForSession(ctx)
	require.NoError(t, err)
	require.NotEqual(t, s.ID(), next.ID())
}
