package consensusmanager

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// The contexts of a shard that is not held have ended, and do not affect the next time.
func TestContextsOfAFreeShard(t *testing.T) {
	h, s := part(t, Settings{DrainTimeout: time.Second})
	require.Error(t, h.Drained(0).Err())
	require.Error(t, h.Staying(0).Err())
	h.acquireShard(ownership.Grant{Shard: 0, Epoch: 5}, s.Period())
	require.NoError(t, h.Drained(0).Err())
	require.NoError(t, h.Staying(0).Err())
	require.True(t, h.Holds(0, 5))
	require.False(t, h.Holds(0, 4))
	h.releaseShard(0)
	require.Error(t, h.Drained(0).Err())
	require.False(t, h.Holds(0, 5))
}

// A caller waits for a shard at the very moment at which the session is confirmed.
func TestConfirmedMeanwhile(t *testing.T) {
	h, s := part(t, Settings{DrainTimeout: time.Second})
	h.acquireShard(ownership.Grant{Shard: 0, Epoch: 5}, s.Period())
	require.True(t, h.slots[0].confirmPeriod(etcdtest.Context(t)), "it is confirmed, though nothing was waited for")
}

// A call that others in the shard wait for may enter again while the shard is being released. No other call
// may, and none afterwards.
func TestReenter(t *testing.T) {
	h, s := part(t, Settings{DrainTimeout: time.Minute})
	_, ok := h.Reenter(0)
	require.False(t, ok)
	h.acquireShard(ownership.Grant{Shard: 0, Epoch: 5}, s.Period())
	_, ok = h.Reenter(0)
	require.False(t, ok, "nothing runs in it")
	_, ok = h.Enter(0)
	require.True(t, ok)
	h.releaseShard(0)
	_, ok = h.Enter(0)
	require.False(t, ok)
	require.True(t, h.Holds(0, 5))
	epoch, ok := h.Reenter(0)
	require.True(t, ok)
	require.EqualValues(t, 5, epoch)
	h.Exit(0)
	h.Exit(0)
	_, ok = h.Reenter(0)
	require.False(t, ok)
	h.work.Wait()
	require.False(t, h.Holds(0, 5))
}

// No caller waits for a shard on a node that is leaving and no longer has it, because no map may follow.
func TestAwaitAtANodeThatLeaves(t *testing.T) {
	h, _ := part(t, Settings{DrainTimeout: time.Second})
	awaited := make(chan error, 1)
	await := func() error {
		generation, err := h.Await(etcdtest.Context(t), 0, h.Generation())
		assert.EqualValues(t, NoMap, generation)
		return err
	}
	go func() { awaited <- await() }()
	h.relinquishShards()
	require.ErrorIs(t, <-awaited, shard.ErrNotOwner)
	require.ErrorIs(t, await(), shard.ErrNotOwner)
}

// A caller that stops waiting learns whether the map assigns the shard to another node or to this one.
func TestAwaitIsGivenUp(t *testing.T) {
	for address, want := range map[string]int64{"here": 0, "": Coming} { // "" owns all while there is no map
		h, _ := partOf(t, Config{Process: etcd.Process{Address: address}})
		ctx, cancel := context.WithTimeout(etcdtest.Context(t), 10*time.Millisecond)
		generation, err := h.Await(ctx, 0, h.Generation())
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, want, generation)
	}
}
