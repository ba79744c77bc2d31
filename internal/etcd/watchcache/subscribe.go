package watchcache

import (
	"context"
	"slices"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Subscription is a coalescing signal that the snapshot has changed. Its methods are safe for concurrent use.
type Subscription struct {
	// C receives after a change. One signal may stand for several changes.
	C <-chan struct{}

	c        wait.Signal
	m        *Mirror
	concerns func(before, now *state.Snapshot) bool
}

// Subscribe returns a subscription with its first signal already pending. concerns selects the changes that
// cause a signal; nil selects all. With a thousand nodes in one process most of the work would be waking
// subscribers that a change does not concern. The mirror's own goroutine calls concerns with each snapshot and
// the one before it, so concerns must be quick and must not block. The first snapshot, stale snapshots and
// those after a stale one are always signalled.
func (m *Mirror) Subscribe(concerns func(before, now *state.Snapshot) bool) *Subscription {
	c := wait.NewSignal()
	s := &Subscription{C: c, c: c, m: m, concerns: concerns}
	s.Signal()
	m.mu.Lock()
	m.subs = append(m.subs, s)
	m.mu.Unlock()
	return s
}

// Signal makes C receive without a change of the snapshot. It does not block.
func (s *Subscription) Signal() {
	s.c.Send()
}

// Close ends the subscription. It does not close C.
func (s *Subscription) Close() {
	s.m.mu.Lock()
	s.m.subs = removeItem(s.m.subs, s)
	s.m.mu.Unlock()
}

// waiter is one call of Wait.
type waiter struct {
	cond func(*state.Snapshot) bool
	c    chan *state.Snapshot // has room for the one answer
}

// Wait blocks until a snapshot satisfies cond, and returns that snapshot, or until ctx ends. Every snapshot is
// tried, however briefly it was current. cond is called from the caller's goroutine and from the mirror's own,
// possibly at the same time. It must be pure and quick, and must not block.
func (m *Mirror) Wait(ctx context.Context, cond func(*state.Snapshot) bool) (*state.Snapshot, error) {
	w := &waiter{cond: cond, c: make(chan *state.Snapshot, 1)}
	m.mu.Lock()
	m.waiters = append(m.waiters, w)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.waiters = removeItem(m.waiters, w)
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

func (m *Mirror) publishSnapshot(s *state.Snapshot) {
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
	// Subscribers are signalled last, because Go next runs the goroutine that was woken last: where thousands
	// are runnable, the others wait behind it.
	for _, sub := range m.subs {
		if before != nil && !before.Stale && !s.Stale && sub.concerns != nil && !sub.concerns(before, s) {
			continue
		}
		sub.Signal()
	}
}

// removeItem returns s without v, in place.
func removeItem[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(s, func(x T) bool { return x == v })
}
