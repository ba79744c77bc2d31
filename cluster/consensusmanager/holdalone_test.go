package consensusmanager

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// For each key and name, one function runs at a time. A caller waits until the shard is here and no function
// runs, and may stop waiting.
func TestHoldAlone(t *testing.T) {
	t.Parallel()
	h, s := part(t, Settings{DrainTimeout: time.Hour})
	shard := h.Shard("it")
	slot := &h.slots[shard]
	defer h.work.Wait()
	ctx := etcdtest.Context(t)
	type call struct {
		epoch  chan int64
		leave  chan struct{}
		result chan error
		cancel context.CancelCauseFunc
	}
	begin := func(name string) *call {
		ctx, cancel := context.WithCancelCause(ctx)
		c := &call{make(chan int64, 1), make(chan struct{}), make(chan error, 1), cancel}
		go func() {
			c.result <- h.HoldAlone(ctx, "it", name, func(_ context.Context, epoch int64) error {
				c.epoch <- epoch
				<-c.leave
				return errLeft
			})
		}()
		return c
	}
	inside := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			slot.mu.Lock()
			defer slot.mu.Unlock()
			return slot.calls == n
		}, patience, time.Millisecond)
	}
	end := func(c *call) {
		close(c.leave)
		require.ErrorIs(t, <-c.result, errLeft)
	}

	first := begin("views")
	h.acquireShard(ownership.Grant{Shard: shard, Epoch: 5}, s.Period())
	require.EqualValues(t, 5, <-first.epoch)
	second, other := begin("views"), begin("outbox")
	require.EqualValues(t, 5, <-other.epoch, "another name")
	inside(3)
	require.Empty(t, second.epoch)
	bored := begin("views")
	inside(4)
	bored.cancel(errLeft)
	require.ErrorIs(t, <-bored.result, errLeft)
	end(first)
	require.EqualValues(t, 5, <-second.epoch, "the other has ended")

	third := begin("views")
	inside(3)
	h.releaseShard(shard)
	waitsFor(t, slot)
	require.Empty(t, third.epoch, "it waits for the shard again")
	end(second)
	end(other)
	require.NoError(t, h.awaitIdle(ctx))
	h.acquireShard(ownership.Grant{Shard: shard, Epoch: 6}, s.Period())
	require.EqualValues(t, 6, <-third.epoch)
	last := begin("views")
	inside(2)
	h.relinquishShards()
	h.releaseShard(shard)
	h.stopWaiting()
	require.ErrorIs(t, <-last.result, lifecycle.ErrStopped, "it does not wait for who goes on")
	end(third)
	require.NoError(t, h.awaitIdle(ctx))
	require.Empty(t, h.aloneMutex.held, "nothing is left of them")
}
