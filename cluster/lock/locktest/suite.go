// Package locktest is the conformance suite for every implementation of lock.LockRegistry.
//
// Not promised: the suite does not test faults of the store that keeps the locks. Each implementation tests its
// own.
//
// Experimental: the API of this package may change in any minor release.
package locktest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/lifecycle"
)

const patience = 20 * time.Second

// Run checks the registries that open returns: two views of the same locks, as of two processes. They may be the
// same.
func Run(t *testing.T, open func(t *testing.T) (a, b lock.LockRegistry)) {
	for _, test := range []struct {
		name string
		f    func(s *suite)
	}{
		{"one holds at a time", checkOneHolder},
		{"who came first is first", checkOrder},
		{"tokens grow", checkTokens},
		{"trying does not wait", checkTry},
		{"who gives up waiting is out of the queue", checkGiveUp},
		{"sharing", checkShared},
		{"nobody shares past who waits", checkNoPassing},
		{"a release ends the context", checkReleased},
		{"names", checkNames},
		{"many at once", checkMany},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s := &suite{T: t, ctx: ctx}
			s.a, s.b = open(t)
			test.f(s)
		})
	}
}

type suite struct {
	*testing.T
	ctx  context.Context
	a, b lock.LockRegistry
}

func (s *suite) acquire(r lock.LockRegistry, name string, opts ...lock.Option) lock.Held {
	s.Helper()
	h, err := r.Acquire(s.ctx, name, opts...)
	require.NoError(s, err)
	return h
}

func (s *suite) release(h lock.Held) {
	s.Helper()
	require.NoError(s, h.Release(s.ctx))
}

// lockFree reports whether a lock can be acquired.
func (s *suite) lockFree(r lock.LockRegistry, name string, opts ...lock.Option) bool {
	s.Helper()
	h, ok, err := r.TryAcquire(s.ctx, name, opts...)
	require.NoError(s, err)
	if ok {
		s.release(h)
	}
	return ok
}

// startWaiter starts a caller that waits for a lock.
func (s *suite) startWaiter(r lock.LockRegistry, name string, opts ...lock.Option) <-chan lock.Held {
	s.Helper()
	got := make(chan lock.Held, 1)
	go func() {
		h, err := r.Acquire(s.ctx, name, opts...)
		if assert.NoError(s, err) {
			got <- h
		}
		close(got)
	}()
	return got
}

func checkOneHolder(s *suite) {
	inside, count := atomic.Int32{}, 0 // count is guarded by the lock alone
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := []lock.LockRegistry{s.a, s.b}[i%2]
			for range 10 {
				h, err := r.Acquire(s.ctx, "one")
				if !assert.NoError(s, err) {
					return
				}
				assert.EqualValues(s, 1, inside.Add(1))
				count++
				inside.Add(-1)
				assert.NoError(s, h.Release(s.ctx))
			}
		})
	}
	wg.Wait()
	require.Equal(s, 80, count)
}

// The token of a grant is its place in the queue: later grants have larger ones.
func checkOrder(s *suite) {
	first := s.acquire(s.a, "fifo")
	const waiters = 12
	var waits []<-chan lock.Held
	for i := range waiters {
		waits = append(waits, s.startWaiter([]lock.LockRegistry{s.a, s.b}[i%2], "fifo"))
	}
	granted := make(chan int64, waiters)
	var wg sync.WaitGroup
	for _, got := range waits {
		wg.Go(func() {
			if h, ok := <-got; ok {
				granted <- h.Token()
				assert.NoError(s, h.Release(s.ctx))
			}
		})
	}
	s.release(first)
	wg.Wait()
	last := first.Token()
	for range waiters {
		token := <-granted
		require.Greater(s, token, last)
		last = token
	}
}

func checkTokens(s *suite) {
	last := int64(0)
	for i := range 10 {
		h := s.acquire([]lock.LockRegistry{s.a, s.b}[i%2], "token")
		require.Greater(s, h.Token(), last)
		last = h.Token()
		require.Equal(s, "token", h.Name())
		s.release(h)
	}
}

func checkTry(s *suite) {
	h, ok, err := s.a.TryAcquire(s.ctx, "try")
	require.NoError(s, err)
	require.True(s, ok)
	for _, r := range []lock.LockRegistry{s.a, s.b} {
		second, ok, err := r.TryAcquire(s.ctx, "try")
		require.NoError(s, err)
		require.False(s, ok)
		require.Nil(s, second)
	}
	require.True(s, s.lockFree(s.b, "another"))
	s.release(h)
	require.True(s, s.lockFree(s.b, "try"))
}

func checkGiveUp(s *suite) {
	h := s.acquire(s.a, "patience")
	ctx, cancel := context.WithCancelCause(s.ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := s.b.Acquire(ctx, "patience")
		failed <- err
	}()
	next := s.startWaiter(s.a, "patience")
	why := fmt.Errorf("it is not needed any more")
	cancel(why)
	require.ErrorIs(s, <-failed, why)
	s.release(h)
	s.release(<-next)
	require.Eventually(s, func() bool { return s.lockFree(s.a, "patience") }, patience, 5*time.Millisecond)
	_, err := s.a.Acquire(ctx, "patience")
	require.ErrorIs(s, err, why)
	_, _, err = s.a.TryAcquire(ctx, "patience")
	require.ErrorIs(s, err, why)
}

func checkShared(s *suite) {
	one := s.acquire(s.a, "shared", lock.Shared())
	two := s.acquire(s.b, "shared", lock.Shared())
	three := s.acquire(s.b, "shared", lock.Shared())
	require.False(s, s.lockFree(s.a, "shared"), "nobody has it alone")
	require.True(s, s.lockFree(s.a, "shared", lock.Shared()))
	s.release(one)
	s.release(two)
	require.False(s, s.lockFree(s.a, "shared"))
	s.release(three)
	alone := s.acquire(s.a, "shared")
	require.False(s, s.lockFree(s.b, "shared", lock.Shared()))
	s.release(alone)
}

func checkNoPassing(s *suite) {
	shared := s.acquire(s.a, "rw", lock.Shared())
	alone := s.startWaiter(s.b, "rw")
	require.Eventually(s, func() bool { return !s.lockFree(s.a, "rw", lock.Shared()) }, patience, time.Millisecond,
		"somebody waits to have it alone")
	behind := s.startWaiter(s.a, "rw", lock.Shared())
	s.release(shared)
	h := <-alone
	require.NotNil(s, h)
	require.Greater(s, h.Token(), shared.Token())
	select {
	case <-behind:
		require.Fail(s, "shared beside one who has it alone")
	default:
	}
	s.release(h)
	s.release(<-behind)
}

func checkReleased(s *suite) {
	h := s.acquire(s.a, "context")
	ctx := h.Context()
	require.NoError(s, ctx.Err())
	require.True(s, h.Valid())
	s.release(h)
	require.ErrorIs(s, context.Cause(ctx), lock.ErrReleased)
	require.False(s, h.Valid())
	s.release(h) // harmless
	require.ErrorIs(s, context.Cause(h.Context()), lock.ErrReleased)
	late := s.acquire(s.a, "context")
	s.release(late)
	require.ErrorIs(s, context.Cause(late.Context()), lock.ErrReleased, "asked for only now")
}

func checkNames(s *suite) {
	var held []lock.Held
	for _, name := range []string{"a", "a/b", "a/", "/a", "A", "ä", "a b", "..", ".", "%2F", "a%2Fb", "\x00", "\xff"} {
		held = append(held, s.acquire(s.a, name))
	}
	for _, h := range held {
		require.False(s, s.lockFree(s.b, h.Name()), "%q", h.Name())
		s.release(h)
		require.True(s, s.lockFree(s.b, h.Name()), "%q", h.Name())
	}
	for _, name := range []string{"", string(make([]byte, 1000))} {
		_, err := s.a.Acquire(s.ctx, name)
		require.ErrorIs(s, err, lifecycle.ErrBadName)
		_, _, err = s.a.TryAcquire(s.ctx, name)
		require.ErrorIs(s, err, lifecycle.ErrBadName)
	}
}

func checkMany(s *suite) {
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			h, err := s.a.Acquire(s.ctx, fmt.Sprintf("many %d", i))
			if assert.NoError(s, err) {
				assert.True(s, h.Valid())
				assert.NoError(s, h.Release(s.ctx))
			}
		})
	}
	wg.Wait()
}
