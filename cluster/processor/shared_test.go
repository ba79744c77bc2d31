package processor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// countedLock counts how often a lock is held, and can lose it.
type countedLock struct {
	processor.LeaderLock
	held, now atomic.Int64
	lose      atomic.Pointer[context.CancelCauseFunc]
}

func (c *countedLock) Lead(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	return c.LeaderLock.Lead(ctx, func(ctx context.Context, token int64) error {
		ctx, lose := context.WithCancelCause(ctx)
		defer lose(nil)
		c.lose.Store(&lose)
		c.held.Add(1)
		c.now.Add(1)
		defer c.now.Add(-1)
		return fn(ctx, token)
	})
}

func newCountedLock() *countedLock {
	return &countedLock{LeaderLock: processor.Lock(&lock.Memory{}, "all")}
}

// untilEnd is a function that runs until its context ends, and reports its token first.
func untilEnd(tokens chan<- int64) func(context.Context, int64) error {
	return func(ctx context.Context, token int64) error {
		tokens <- token
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// All members run in one term. It ends with the last of them, and only then is the lock released.
func TestSharedLockIsAcquiredOnce(t *testing.T) {
	t.Parallel()
	under := newCountedLock()
	shared := processor.Shared(under)
	tokens := make(chan int64)
	first, endFirst := context.WithCancel(t.Context())
	second, endSecond := context.WithCancel(t.Context())
	a := ledWhile(first, shared, untilEnd(tokens))
	token := <-tokens
	b := ledWhile(second, shared, untilEnd(tokens))
	require.Equal(t, token, <-tokens, "the later one joins the term")
	endFirst()
	require.ErrorIs(t, <-a, context.Canceled)
	require.EqualValues(t, 1, under.now.Load(), "the other one still needs the lock")
	c := ledWhile(t.Context(), shared, func(context.Context, int64) error { return nil })
	require.NoError(t, <-c)
	require.EqualValues(t, 1, under.held.Load())
	endSecond()
	require.ErrorIs(t, <-b, context.Canceled)
	require.Zero(t, under.now.Load(), "it is released when the last call returns")
	require.NoError(t, <-led(shared, func(_ context.Context, next int64) error {
		assert.Greater(t, next, token)
		return nil
	}))
}

// A lost lock ends the work of all members. They then run under the next token, none before the last of them ended.
func TestSharedLockIsLostForAll(t *testing.T) {
	t.Parallel()
	under := newCountedLock()
	shared := processor.Shared(under)
	tokens, slow := make(chan int64), make(chan struct{})
	a := ledWhile(t.Context(), shared, untilEnd(tokens))
	token := <-tokens
	b := ledWhile(t.Context(), shared, func(ctx context.Context, _ int64) error {
		tokens <- token
		<-ctx.Done()
		<-slow
		return context.Cause(ctx)
	})
	<-tokens
	(*under.lose.Load())(errOops)
	require.ErrorIs(t, <-a, errOops)
	later := ledWhile(t.Context(), shared, func(_ context.Context, next int64) error {
		assert.Greater(t, next, token)
		assert.EqualValues(t, 2, under.held.Load())
		return nil
	})
	select {
	case <-later:
		require.Fail(t, "it ran beside the work of the former term")
	default:
	}
	close(slow)
	require.ErrorIs(t, <-b, errOops)
	require.NoError(t, <-later)
}

// An error in the middle of a term, such as a fenced checkpoint, makes all members get a new token.
func TestSharedLockIsAcquiredAnewAfterAnError(t *testing.T) {
	t.Parallel()
	shared := processor.Shared(newCountedLock())
	tokens := make(chan int64)
	a := ledWhile(t.Context(), shared, untilEnd(tokens))
	token := <-tokens
	require.ErrorIs(t, <-led(shared, func(context.Context, int64) error { return errOops }), errOops)
	require.ErrorIs(t, <-a, context.Canceled)
	require.NoError(t, <-led(shared, func(_ context.Context, next int64) error {
		assert.Greater(t, next, token)
		return nil
	}))
}

// Members that wait for the lock leave when their contexts end; the last of them gives up the place in the queue. An
// error of the lock reaches all that wait.
func TestSharedLockWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks := &lock.Memory{}
		other, err := locks.Acquire(t.Context(), "all")
		require.NoError(t, err)
		shared := processor.Shared(processor.Lock(locks, "all"))
		first, end := context.WithCancel(t.Context())
		a := ledWhile(first, shared, func(context.Context, int64) error { return errOops })
		synctest.Wait()
		b := ledWhile(t.Context(), shared, func(context.Context, int64) error { return nil })
		synctest.Wait()
		end()
		require.ErrorIs(t, <-a, context.Canceled)
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, <-b, "the acquisition does not end with the call that began it")

		other, err = locks.Acquire(t.Context(), "all")
		require.NoError(t, err)
		second, end := context.WithCancel(t.Context())
		a = ledWhile(second, shared, func(context.Context, int64) error { return errOops })
		synctest.Wait()
		end()
		require.ErrorIs(t, <-a, context.Canceled)
		require.NoError(t, other.Release(t.Context()))
		_, free, err := locks.TryAcquire(t.Context(), "all")
		require.NoError(t, err)
		require.True(t, free, "no place in the queue is left")
	})
	none := processor.Shared(processor.Lock(nil, "all"))
	for range 2 {
		require.ErrorIs(t, <-led(none, func(context.Context, int64) error { return nil }), processor.ErrNoLock)
	}
}

// Two processors, with their checkpoints in etcd, work under one lock, and so does the next process.
func TestProcessorsShareALock(t *testing.T) {
	t.Parallel()
	server, locks := etcdtest.Start(t), &lock.Memory{}
	for i := range 2 {
		under := &countedLock{LeaderLock: processor.Lock(locks, "both")}
		shared, checkpoint := processor.Shared(under), connect(t, server.Endpoint()).etcd
		var g processor.Group
		var done [2]handled
		for j, name := range []string{"a", "b"} {
			p, err := processor.New(processor.Config[int]{Name: name, Source: &numbers{last: 3 * (i + 1)},
				Handler: done[j].handle, Checkpoint: checkpoint, LeaderLock: shared})
			require.NoError(t, err)
			g = append(g, p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		eventually(t, func() bool { return len(done[0].all()) == 3 && len(done[1].all()) == 3 }, "each goes on")
		status := g.Status()
		require.True(t, status[0].Leading && status[1].Leading)
		require.Equal(t, status[0].Token, status[1].Token)
		cancel()
		require.NoError(t, <-ended)
		require.EqualValues(t, 1, under.held.Load(), "the lock is acquired once for both")
	}
}
