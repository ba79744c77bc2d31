package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A named election hands over to a preferred node after Config.PreferAfter. With the default value every attempt
// would take longer.
func TestPreferAfterIsConfigured(t *testing.T) {
	etcd, ctx := etcdtest.Start(t), etcdtest.Context(t)
	soon := func(c *Config) { c.PreferAfter = time.Millisecond }
	a, b := start(t, etcd, soon), start(t, etcd, soon)
	first, err := a.Elections().Stand("job")
	require.NoError(t, err)
	for took := time.Hour; took >= (Config{}).withDefaults().PreferAfter; { // a machine may be busy
		_, err = first.WaitForLeader(ctx)
		require.NoError(t, err)
		began := time.Now()
		preferred, err := b.Elections().Stand("job", leaderelection.Priority(1))
		require.NoError(t, err)
		seen, err := preferred.Watch(ctx)
		require.NoError(t, err)
		for seen := range seen {
			if seen.Address == b.address() {
				break
			}
		}
		require.NoError(t, ctx.Err(), "it took longer than the default")
		took = time.Since(began)
		require.NoError(t, preferred.Withdraw(ctx))
	}
}

// Code that is created before Start can be given the locks.
func TestLocksBeforeStart(t *testing.T) {
	ctx := etcdtest.Context(t)
	c := newCluster(t, etcdtest.Start(t), "127.0.0.1:0")
	locks := c.Locks()
	_, err := locks.Acquire(ctx, "it")
	require.ErrorIs(t, err, ErrNotStarted)
	_, _, err = locks.TryAcquire(ctx, "it")
	require.ErrorIs(t, err, ErrNotStarted)
	require.NoError(t, c.Start(ctx))
	held, err := locks.Acquire(ctx, "it")
	require.NoError(t, err)
	_, ok, err := locks.TryAcquire(ctx, "it")
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, held.Release(ctx))
	require.NoError(t, c.Stop(ctx))
	_, err = locks.Acquire(ctx, "it")
	require.ErrorIs(t, err, lock.ErrStopped)
}

// A candidacy that is requested before Start begins with it.
func TestStandBeforeStart(t *testing.T) {
	ctx := etcdtest.Context(t)
	c := newCluster(t, etcdtest.Start(t), "127.0.0.1:0")
	early, err := c.Elections().Stand("it", leaderelection.Priority(1))
	require.NoError(t, err)
	same, err := c.Elections().Stand("it")
	require.NoError(t, err)
	require.Same(t, early, same)
	cancelled, err := c.Elections().Stand("cancelled")
	require.NoError(t, err)
	require.NoError(t, cancelled.Withdraw(ctx))
	require.NoError(t, cancelled.Withdraw(ctx), "again is fine")
	again, err := c.Elections().Stand("again")
	require.NoError(t, err)
	require.NoError(t, again.Close(ctx))
	same, err = c.Elections().Stand("again")
	require.NoError(t, err)
	require.Same(t, again, same, "all callers share it")
	_, err = c.Elections().Stand("")
	require.ErrorIs(t, err, leaderelection.ErrBadName)

	require.Equal(t, "it", early.Name())
	require.ErrorIs(t, early.Lead(ctx, nil), ErrNotStarted)
	require.False(t, early.IsLeader())
	require.Zero(t, early.Leader())

	require.NoError(t, c.Start(ctx))
	require.NoError(t, early.Lead(ctx, func(context.Context, leaderelection.Term) error { return nil }))
	require.True(t, early.IsLeader())
	standing, err := c.Elections().Look(ctx, "it")
	require.NoError(t, err)
	require.Equal(t, 1, standing.Candidates[0].Priority, "the options of a later call leave it alone")
	_, err = c.Elections().Look(ctx, "cancelled")
	require.ErrorIs(t, err, leaderelection.ErrNoLeader)
	require.ErrorIs(t, cancelled.Lead(ctx, nil), leaderelection.ErrWithdrawn)
	require.NoError(t, c.Stop(ctx))
	require.ErrorIs(t, early.Lead(ctx, nil), ErrStopped)
}
