package consensusmanager

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

const patience = time.Minute

// ofShards configures a number of shards.
func ofShards(n int) Settings { return Settings{Planning: shardplan.Settings{Shards: n}} }

// part returns a node's part in the shards on a real session. The test acquires and releases.
func part(t testing.TB, settings Settings) (*Shards, *etcdsession.Session) {
	t.Helper()
	return partOf(t, Config{Settings: settings})
}

func partOf(t testing.TB, cfg Config) (*Shards, *etcdsession.Session) {
	t.Helper()
	ctx := etcdtest.Context(t)
	cfg.Client = etcdtest.Client(t)
	s, err := etcdsession.Open(ctx, etcdsession.Config{Process: cfg.Process, TTL: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(etcdtest.Context(t))) })
	cfg.Process = cfg.WithDefaults()
	cfg.Planning, cfg.Mirror = shardplan.Settings{Shards: 4}, watchcache.New(watchcache.Config{Process: cfg.Process})
	return newShards(cfg), s // the mirror has no snapshot
}

// inside is a call that stays in a shard until its context has ended.
type inside struct {
	epoch  chan int64 // receives the epoch when the call runs
	ending chan error // receives the cause when the call's context has ended
	leave  chan struct{}
	result chan error // of Hold or Serve
}

// stays begins a call of Hold or Serve.
func stays(t *testing.T, enter func(ctx context.Context, key string, fn func(ctx context.Context,
	epoch int64) error) error) *inside {
	t.Helper()
	in := &inside{make(chan int64, 1), make(chan error, 1), make(chan struct{}), make(chan error, 1)}
	bound := etcdtest.Context(t)
	go func() {
		in.result <- enter(bound, "it", func(ctx context.Context, epoch int64) error {
			in.epoch <- epoch
			<-ctx.Done()
			in.ending <- context.Cause(ctx)
			select {
			case <-in.leave:
			case <-bound.Done():
			}
			return errLeft
		})
	}()
	return in
}

var errLeft = errors.New("it has left")

// waitsFor blocks until a caller waits for the shard.
func waitsFor(t *testing.T, slot *shardSlot) {
	t.Helper()
	require.Eventually(t, func() bool {
		slot.mu.Lock()
		defer slot.mu.Unlock()
		return slot.servedNext != nil
	}, patience, time.Millisecond)
}

// When a shard must be handed over, the context of Hold ends at once, and that of Serve does not. The shard
// stays until both have left, and callers that arrive meanwhile wait for the next time.
func TestHold(t *testing.T) {
	t.Parallel()
	acquiring, acquired := make(chan struct{}), make(chan struct{})
	h, s := part(t, Settings{DrainTimeout: time.Hour, OnAcquire: func(context.Context, int, int64) {
		acquiring <- struct{}{}
		<-acquired
	}})
	number := h.Shard("it")
	slot := &h.slots[number]
	defer h.work.Wait()

	first, second := stays(t, h.Hold), stays(t, h.Hold)
	waitsFor(t, slot)
	h.acquireShard(ownership.Grant{Shard: number, Epoch: 5}, s.Period())
	<-acquiring
	require.Empty(t, first.epoch, "it is not served yet")
	acquired <- struct{}{}
	require.EqualValues(t, 5, <-first.epoch)
	require.EqualValues(t, 5, <-second.epoch)
	serves := stays(t, h.Serve)
	require.EqualValues(t, 5, <-serves.epoch)

	h.releaseShard(number)
	require.ErrorIs(t, <-first.ending, shard.ErrNotOwner)
	require.ErrorIs(t, <-second.ending, shard.ErrNotOwner)
	require.Empty(t, serves.ending, "it has the drain time-out")
	third := stays(t, h.Hold)
	waitsFor(t, slot)
	close(first.leave)
	close(second.leave)
	require.ErrorIs(t, <-first.result, errLeft)
	require.ErrorIs(t, <-second.result, errLeft)
	require.Equal(t, 1, h.Held())
	h.stopWaiting()
	require.ErrorIs(t, <-serves.ending, shard.ErrNotOwner)
	require.ErrorIs(t, <-third.result, lifecycle.ErrStopped)
	close(serves.leave)
	require.ErrorIs(t, <-serves.result, errLeft)
	require.NoError(t, h.awaitIdle(context.Background()))
}

// A shard that comes back in another session is held anew. One that goes before it was served is not held. A
// caller may stop waiting at any time.
func TestHoldAgain(t *testing.T) {
	t.Parallel()
	var keep atomic.Bool
	var h *Shards
	h, s := part(t, Settings{DrainTimeout: time.Hour, OnAcquire: func(ctx context.Context, number int, _ int64) {
		if !keep.Load() {
			h.releaseShard(number)
		}
	}})
	number := h.Shard("it")
	slot := &h.slots[number]
	free := func() { require.NoError(t, h.awaitIdle(etcdtest.Context(t))) }

	first := stays(t, h.Hold)
	waitsFor(t, slot)
	h.acquireShard(ownership.Grant{Shard: number, Epoch: 5}, s.Period())
	free()
	require.Empty(t, first.epoch)
	keep.Store(true)
	h.acquireShard(ownership.Grant{Shard: number, Epoch: 6}, s.Period())
	require.EqualValues(t, 6, <-first.epoch)
	s.EndLocally(session.ReasonExpired, nil)
	var lost *session.LostError
	require.ErrorAs(t, <-first.ending, &lost)
	second := stays(t, h.Hold)
	waitsFor(t, slot)
	require.Empty(t, second.epoch, "nobody has released it yet, and it is served no more")
	h.releaseShard(number)
	close(first.leave)
	free()

	other, err := etcdsession.Open(etcdtest.Context(t), etcdsession.Config{Process: h.cfg.Process, TTL: time.Hour})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close(etcdtest.Context(t))) }()
	h.acquireShard(ownership.Grant{Shard: number, Epoch: 7}, other.Period())
	require.EqualValues(t, 7, <-second.epoch)
	h.releaseShard(number)
	require.ErrorIs(t, <-second.ending, shard.ErrNotOwner)
	close(second.leave)
	free()

	ctx, cancel := context.WithCancelCause(context.Background())
	result := make(chan error)
	go func() { result <- h.Hold(ctx, "it", nil) }()
	waitsFor(t, slot)
	cancel(errLeft)
	require.ErrorIs(t, <-result, errLeft)
	h.work.Wait()
}

// BenchmarkServing measures the cost of each call.
func BenchmarkServing(b *testing.B) {
	h, s := part(b, Settings{})
	h.acquireShard(ownership.Grant{Shard: h.Shard("it"), Epoch: 5}, s.Period())
	b.Run("Serve", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = h.Serve(context.Background(), "it", func(context.Context, int64) error { return nil })
		}
	})
	b.Run("Serves", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = h.Serves(h.Shard("it"))
		}
	})
}
