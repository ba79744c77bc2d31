package etcdsession

import (
	"context"
	"slices"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/clock"
	"github.com/goverse/goverse/internal/deadline"
)

// Stretch is a time in which a session may be acted on without a break. A session has
// one after the other: each ends when the session is suspended, because a doubt was not
// cleared in time (see [Session.Doubt]), or lost; the next one begins when etcd has
// confirmed a suspended session. What acts on a session for longer than a moment, a term
// of leadership for example, is bound to the stretch it began in: others may have
// acted since. All methods are safe for concurrent use.
type Stretch struct {
	s      *Session
	number int
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Stretch is the present stretch, or the last one while there is none.
func (s *Session) Stretch() *Stretch { return s.stretch.Load() }

// Valid reports whether the session may be acted on at this instant and could be ever
// since the stretch began. It reads atomics and the clock: no lock, no allocation, no
// network.
func (t *Stretch) Valid() bool {
	now := clock.Now()
	return t.stands(now) && t.s.awake(now)
}

// Stands is Valid, but for a process that stood still for a moment, of which etcd has not confirmed
// yet that nothing was taken from it: what began in the stretch goes on if it does.
func (t *Stretch) Stands() bool { return t.stands(clock.Now()) }

func (t *Stretch) stands(now deadline.Instant) bool {
	claim := t.s.claim.Load()
	return !t.s.over.Load() && claim.Stretch() == t.number && claim.Valid(now)
}

// Context ends with the stretch, with a [LostError] as its cause.
func (t *Stretch) Context() context.Context { return t.ctx }

// OnChange calls changed, until stop is called, whenever a stretch has ended or begun, or
// a doubt was cleared. It is called from the session's own goroutines and must not block;
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

// count makes claim the present one, and begins a stretch if it is the first claim of
// another: it reports whether the session counts again. The lock is held, or the session
// is new.
func (s *Session) count(claim deadline.Claim) (again bool) {
	before := s.claim.Swap(&claim)
	old := s.stretch.Load()
	if old != nil && old.number == claim.Stretch() {
		if before.InDoubt() && !claim.InDoubt() {
			s.tell()
		}
		return false
	}
	t := &Stretch{s: s, number: claim.Stretch()}
	t.ctx, t.cancel = context.WithCancelCause(s.ctx)
	s.stretch.Store(t)
	if old == nil {
		return false
	}
	old.cancel(&session.LostError{Reason: session.ReasonUnconfirmed})
	s.tell()
	return true
}

// suspend ends the present stretch. It returns why, or nil if that has happened before.
// The lock is held.
func (s *Session) suspend() *session.LostError {
	t := s.stretch.Load()
	if t.ctx.Err() != nil {
		return nil
	}
	why := &session.LostError{Reason: session.ReasonUnconfirmed, Err: s.lastErr}
	t.cancel(why)
	s.tell()
	return why
}

func (s *Session) tell() {
	for _, l := range s.listeners {
		l.changed()
	}
}
