package etcdsession

import (
	"context"
	"slices"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

// Period is a time in which a session may be acted on without a break. A session has
// one after the other: each ends when the session is suspended, because a suspicion was not
// cleared in time (see [Session.Suspect]), or lost; the next one begins when etcd has
// confirmed a suspended session. What acts on a session for longer than a moment, a term
// of leadership for example, is bound to the period it began in: others may have
// acted since. All methods are safe for concurrent use.
type Period struct {
	s      *Session
	number int
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Period is the present period, or the last one while there is none.
func (s *Session) Period() *Period { return s.period.Load() }

// Valid reports whether the session may be acted on at this instant and could be ever
// since the period began. It reads atomics and the clock: no lock, no allocation, no
// network.
func (t *Period) Valid() bool {
	claim, now := t.s.claim.Load(), t.s.cfg.Clock()
	return !t.s.over.Load() && claim.Period() == t.number && claim.Valid(now) && t.s.awake(now)
}

// Stands is Valid, but for a process that stood still for a moment, of which etcd has not confirmed
// yet that nothing was taken from it: what began in the period goes on if it does.
func (t *Period) Stands() bool {
	claim, now := t.s.claim.Load(), t.s.cfg.Clock()
	return !t.s.over.Load() && claim.Period() == t.number && claim.Valid(now)
}

// Context ends with the period, with a [session.LostError] as its cause.
func (t *Period) Context() context.Context { return t.ctx }

// OnChange calls changed, until stop is called, whenever a period has ended or begun, or
// a suspicion was cleared. It is called from the session's own goroutines and must not block;
// a call may come late, after stop too.
func (s *Session) OnChange(changed func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &listener{changed}
	s.listeners = append(s.listeners, l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.listeners = slices.DeleteFunc(slices.Clone(s.listeners), func(x *listener) bool { return x == l })
	}
}

type listener struct{ changed func() }

// count makes claim the present one, and begins a period if it is the first claim of
// another: it reports whether the session counts again. The lock is held, or the session
// is new.
func (s *Session) count(claim deadline.Claim) (again bool) {
	before := s.claim.Swap(&claim)
	old := s.period.Load()
	if old != nil && old.number == claim.Period() {
		if before.Suspected() && !claim.Suspected() {
			s.notify()
		}
		return false
	}
	t := &Period{s: s, number: claim.Period()}
	t.ctx, t.cancel = context.WithCancelCause(s.ctx)
	s.period.Store(t)
	if old == nil {
		return false
	}
	old.cancel(&session.LostError{Reason: session.ReasonUnconfirmed})
	s.notify()
	return true
}

// suspend ends the present period. It returns why, or nil if that has happened before.
// The lock is held.
func (s *Session) suspend() *session.LostError {
	t := s.period.Load()
	if t.ctx.Err() != nil {
		return nil
	}
	why := &session.LostError{Reason: session.ReasonUnconfirmed, Err: s.lastErr}
	t.cancel(why)
	s.notify()
	return why
}

func (s *Session) notify() {
	for _, l := range s.listeners {
		l.changed()
	}
}
