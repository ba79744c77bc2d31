package etcdsession

import (
	"context"
	"slices"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

// Period is a validity period: a time in which a session may be relied on without a break. A session has one
// period after another. Each ends when the session is lost, or is suspended because a suspicion was not cleared
// in time (see [Session.Suspect]). The next one begins when etcd has confirmed a suspended session. Work that
// lasts longer than a moment, such as a term of leadership, is bound to the period in which it began, because
// other nodes may have acted since. All methods are safe for concurrent use.
type Period struct {
	s      *Session
	number int
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Period returns the present period, or the last one while there is none.
func (s *Session) Period() *Period { return s.period.Load() }

// Valid reports whether the session may be relied on now and could be throughout the period so far. It reads
// atomics and the clock: no lock, no allocation, no network.
func (t *Period) Valid() bool {
	claim, now := t.s.claim.Load(), t.s.cfg.Clock()
	return !t.s.ended.Load() && claim.PeriodNumber() == t.number && claim.Valid(now) && t.s.pausesHarmless(now) &&
		t.s.proofs.Load().Valid(now)
}

// ValidDespitePause reports the same as [Period.Valid], except that it ignores a pause that etcd has not confirmed to
// be harmless yet. Work that began in the period continues if etcd does.
func (t *Period) ValidDespitePause() bool {
	claim, now := t.s.claim.Load(), t.s.cfg.Clock()
	return !t.s.ended.Load() && claim.PeriodNumber() == t.number && claim.Valid(now)
}

// Context returns a context that ends with the period, with a [session.LostError] as its cause.
func (t *Period) Context() context.Context { return t.ctx }

// EndCause returns the reason why the period has ended, or nil while it lasts, also over a short pause of the process.
// If the session's own goroutine has not noticed the end yet, EndCause ends the period, so that there is one reason.
// It does not block and does no I/O. It may take the session's lock.
func (t *Period) EndCause() error {
	if t.ctx.Err() == nil && !t.ValidDespitePause() {
		t.s.endIfOver()
		t.s.wakeDeadline.Send()
	}
	return context.Cause(t.ctx)
}

// OnChange registers changed to be called, until stop is called, whenever a period has ended or begun or a
// suspicion was cleared. The goroutines that notice it call changed, perhaps under locks of their own, so it must only
// send a signal. A call may be delayed, even until after stop.
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

// setClaim makes claim the present one. If claim belongs to a new period, setClaim begins that period and reports
// that the session is valid again. The lock is held, or the session is new.
func (s *Session) setClaim(claim deadline.Claim) (again bool) {
	before := s.claim.Swap(&claim)
	s.roundNeeded = s.roundNeeded && claim.Suspected()
	old := s.period.Load()
	if old != nil && old.number == claim.PeriodNumber() {
		if before.Suspected() && !claim.Suspected() {
			s.notifyListeners()
		}
		return false
	}
	t := &Period{s: s, number: claim.PeriodNumber()}
	t.ctx, t.cancel = context.WithCancelCause(s.ctx)
	s.period.Store(t)
	if old == nil {
		return false
	}
	old.cancel(&session.LostError{Reason: session.ReasonUnconfirmed})
	s.notifyListeners()
	return true
}

// suspendPeriod ends the present period. It returns the reason, or nil if the period has ended before. The lock is
// held.
func (s *Session) suspendPeriod() *session.LostError {
	t := s.period.Load()
	if t.ctx.Err() != nil {
		return nil
	}
	why := &session.LostError{Reason: session.ReasonUnconfirmed, Err: s.lastErr}
	if s.lapseSuspended {
		why.Err = errLapsed
	}
	t.cancel(why)
	s.notifyListeners()
	return why
}

func (s *Session) notifyListeners() {
	for _, l := range s.listeners {
		l.changed()
	}
}
