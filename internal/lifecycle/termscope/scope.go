// Package termscope runs functions within one term of leadership. All elections of Goverse use it: the cluster's
// own, the named ones, and the elector.
//
//	the term leads ──End──► the owner waits for running functions ──► idle: the key may be given up
//	Context  ─────────┤                                          │
//	the tail ────────────────────────────────────────────────────┤
//
// A [Scope] counts the functions that run. After its end none can begin. Functions of Lead ([Scope.RunUntilEnd])
// must return when the term ends. Functions of AsLeader ([Scope.RunIntoTail]) may go on while the owner waits,
// until the owner's WorkTimeout has passed or [Scope.CutOff] is called.
//
// Not promised: a function that ignores the end of its context goes on. Only the token of the term stops its
// writes.
package termscope

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/lifecycle"
)

// Owner describes the election that a scope belongs to.
type Owner struct {
	// Lock guards the scope beside the owner's own state, so that the owner decides on a fixed number of functions.
	Lock sync.Locker
	// WorkTimeout limits the wait for functions after the end of the term. 0 means no limit.
	WorkTimeout time.Duration
	// Overdue counts the functions of all terms of the election that go on although they are not waited for any longer.
	// Lock guards it. nil: they are not counted.
	Overdue *Overdue
	// OnIdle is called once after the end of the term, when no function is waited for any longer. Lock is held.
	OnIdle func()
	// OnOverdue is called after OnIdle if functions still run when WorkTimeout has passed. Lock is not held.
	OnOverdue func(running int)
	// OverError makes an error that matches ErrTermOver from the reason for the end of the term. If it is nil,
	// errors of functions are returned unchanged.
	OverError func(why error) error
}

// Overdue is a number of functions that go on although they are not waited for any longer.
type Overdue int

// Err returns an error that matches lifecycle.ErrWorkRuns, or nil if there are none.
func (o Overdue) Err() error {
	if o == 0 {
		return nil
	}
	return fmt.Errorf("%w (functions: %d)", lifecycle.ErrWorkRuns, o)
}

// Scope represents the functions that run in one term. It is safe for concurrent use where Owner.Lock is not
// mentioned.
type Scope struct {
	owner      Owner
	term, tail ending
	ended      atomic.Bool

	// Guarded by Owner.Lock:

	running int
	idle    bool        // no function is waited for any longer
	timeout *time.Timer // nil unless functions are waited for
}

// New returns the scope of a term that begins. It ends with term at the latest, and its tail with tail.
func New(owner Owner, term, tail Limit) *Scope {
	return &Scope{owner: owner, term: ending{limit: term}, tail: ending{limit: tail}}
}

// Context returns a context that ends with the term. The caller does not hold Owner.Lock.
func (s *Scope) Context() context.Context { return s.term.context() }

// Bind returns a context that ends with ctx and with the term. stop ends it and releases its resources, as the end of
// the term does. The caller does not hold Owner.Lock.
func (s *Scope) Bind(ctx context.Context) (_ context.Context, stop func()) { return s.term.bind(ctx) }

// EndCause returns the reason why the term has ended, or nil: the cause of Context.
func (s *Scope) EndCause() error { return s.term.endCause() }

// TailEndCause returns the reason why the functions of the term are no longer waited for or were cut off, or nil.
func (s *Scope) TailEndCause() error { return s.tail.endCause() }

// Ended reports whether End was called.
func (s *Scope) Ended() bool { return s.ended.Load() }

// Enter counts a function, unless the term has ended. RunUntilEnd or RunIntoTail must follow. The caller holds
// Owner.Lock.
func (s *Scope) Enter() bool {
	if s.ended.Load() {
		return false
	}
	s.running++
	return true
}

// Busy reports whether functions of the term run and are waited for. The caller holds Owner.Lock.
func (s *Scope) Busy() bool { return s.running > 0 && !s.idle }

// End ends the term for the given reason, unless it is over for another one: no function can begin any more, and
// Context ends. Running functions are waited for. Further calls do nothing. The caller holds Owner.Lock.
func (s *Scope) End(why error) {
	if s.ended.Swap(true) {
		return
	}
	s.term.come(why)
	switch {
	case s.running == 0:
		s.stopWaiting()
	case s.owner.WorkTimeout > 0:
		s.timeout = time.AfterFunc(s.owner.WorkTimeout, s.timeOut)
	}
}

// CutOff ends the tail for the given reason. Running functions are still waited for.
func (s *Scope) CutOff(why error) { s.tail.come(why) }

// Abandon stops waiting for running functions of a term that has ended, as if WorkTimeout had passed. The caller
// holds Owner.Lock.
func (s *Scope) Abandon() {
	if s.ended.Load() && !s.idle {
		s.stopWaiting()
	}
}

// stopWaiting ends the tail and reports that the scope is idle. The caller holds Owner.Lock.
func (s *Scope) stopWaiting() {
	s.idle = true
	s.countOverdue(s.running)
	if s.timeout != nil {
		s.timeout.Stop()
	}
	s.tail.come(s.term.endCause())
	s.owner.OnIdle()
}

// timeOut stops waiting when WorkTimeout has passed.
func (s *Scope) timeOut() {
	s.owner.Lock.Lock()
	overdue := s.Busy()
	running := s.running
	s.Abandon()
	s.owner.Lock.Unlock()
	if overdue {
		s.owner.OnOverdue(running)
	}
}

// RunUntilEnd runs fn after Enter. fn's context ends with ctx and with the term. If fn's error reports the end of
// the term, RunUntilEnd returns an error that matches ErrTermOver and names the reason. Otherwise it returns fn's
// error.
func (s *Scope) RunUntilEnd(ctx context.Context, fn func(context.Context) error) error {
	return s.run(ctx, &s.term, fn)
}

// RunIntoTail is like RunUntilEnd, but fn's context ends with the tail.
func (s *Scope) RunIntoTail(ctx context.Context, fn func(context.Context) error) error {
	return s.run(ctx, &s.tail, fn)
}

func (s *Scope) run(ctx context.Context, end *ending, fn func(context.Context) error) error {
	defer s.leave()
	work, stop := end.bind(ctx)
	defer stop()
	err := fn(work)
	cause := end.endCause()
	switch {
	case err == nil || cause == nil || ctx.Err() != nil || s.owner.OverError == nil:
	case errors.Is(err, lifecycle.ErrTermOver):
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, cause): // fn's own, although it may be part of cause
	case errors.Is(err, context.Canceled), errors.Is(err, cause), errors.Is(cause, err):
		return s.overError(cause)
	}
	return err
}

// leave undoes Enter.
func (s *Scope) leave() {
	s.owner.Lock.Lock()
	defer s.owner.Lock.Unlock()
	s.running--
	if s.idle {
		s.countOverdue(-1)
	}
	if s.running == 0 {
		s.Abandon()
	}
}

// countOverdue counts functions that are not waited for. The caller holds Owner.Lock.
func (s *Scope) countOverdue(n int) {
	if s.owner.Overdue != nil {
		*s.owner.Overdue += Overdue(n)
	}
}

// OverError returns the error of the term. Its reason is why, unless the term has ended for another one.
func (s *Scope) OverError(why error) error {
	if cause := s.EndCause(); cause != nil {
		why = cause
	}
	return s.overError(why)
}

func (s *Scope) overError(why error) error {
	if errors.Is(why, lifecycle.ErrTermOver) {
		return why
	}
	return s.owner.OverError(why)
}
