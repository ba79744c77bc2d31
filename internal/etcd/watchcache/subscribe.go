package watchcache

import (
	"context"
	"slices"

	"github.com/goverse/goverse/internal/state"
)

// Subscription is a coalescing signal that the snapshot changed. Its methods are
// safe for concurrent use.
type Subscription struct {
	// C receives after a change; several changes may make one signal.
	C <-chan struct{}

	c        chan struct{}
	m        *Mirror
	concerns func(before, now *state.Snapshot) bool
}

// Subscribe returns a subscription that has its first signal already. With a
// thousand nodes in one process, waking those that need not look is most of the
// work, so concerns may say which changes matter; nil takes all. It is called
// with each snapshot and the one before, from the mirror's own goroutine: it
// must be quick and must not block. Snapshots that are stale, or follow a stale
// one, or are the first, are signalled without asking.
func (m *Mirror) Subscribe(concerns func(before, now *state.Snapshot) bool) *Subscription {
	c := make(chan struct{}, 1)
	s := &Subscription{C: c, c: c, m: m, concerns: concerns}
	s.Signal()
	m.mu.Lock()
	m.subs = append(m.subs, s)
	m.mu.Unlock()
	return s
}

// Signal makes C receive without a change of the snapshot. It does not block.
func (s *Subscription) Signal() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// Close ends the subscription. C is not closed.
func (s *Subscription) Close() {
	s.m.mu.Lock()
	s.m.subs = remove(s.m.subs, s)
	s.m.mu.Unlock()
}

// waiter is one call of Wait.
type waiter struct {
	cond func(*state.Snapshot) bool
	c    chan *state.Snapshot // has room for the one answer
}

// Wait blocks until a snapshot satisfies cond, and returns that snapshot, or
// until ctx ends. No snapshot is left out, however short it stood. cond is
// called from the caller's goroutine and from the mirror's own, also at the same
// time: it must be pure, quick, and must not block.
func (m *Mirror) Wait(ctx context.Context, cond func(*state.Snapshot) bool) (*state.Snapshot, error) {
	w := &waiter{cond: cond, c: make(chan *state.Snapshot, 1)}
	m.mu.Lock()
	m.waiters = append(m.waiters, w)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.waiters = remove(m.waiters, w)
		m.mu.Unlock()
	}()
	if s := m.Snapshot(); s != nil && cond(s) {
		return s, nil
	}
	select {
	case s := <-w.c:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (m *Mirror) publish(s *state.Snapshot) {
	before := m.snapshot.Swap(s)
	m.reportForeign(before, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiters = slices.DeleteFunc(m.waiters, func(w *waiter) bool {
		met := w.cond(s)
		if met {
			w.c <- s
		}
		return met
	})
	// Last, because Go runs next whom a goroutine woke last: where thousands are
	// runnable, the others wait behind them.
	for _, sub := range m.subs {
		if before != nil && !before.Stale && !s.Stale && sub.concerns != nil && !sub.concerns(before, s) {
			continue
		}
		sub.Signal()
	}
}

// remove is s without v, in place.
func remove[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(s, func(x T) bool { return x == v })
}
