package elector

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/deadline"
)

// term is one unbroken period of this candidate's leadership.
type term struct {
	e      *Elector
	token  int64
	claim  atomic.Pointer[deadline.Claim]
	over   atomic.Bool
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when all it called has returned
}

// begin begins a term: it ends at the claim's deadline, or with run's context. Its goroutines
// are joined by waiting for done.
func (e *Elector) begin(run context.Context, token int64, claim deadline.Claim) *term {
	t := &term{e: e, token: token, done: make(chan struct{})}
	t.claim.Store(&claim)
	t.ctx, t.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(run), tokenKey{}, token))
	e.term.Store(t)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(run, e.cfg.LeaseDuration/10)
	}()
	go func() {
		defer close(t.done)
		e.cfg.OnStartedLeading(t.ctx)
		<-watched // the term is over
		e.cfg.OnStoppedLeading()
	}()
	return t
}

type tokenKey struct{}

// TokenFrom is the fencing token of the term that a context belongs to, above 0: that which
// OnStartedLeading got, or one made of it. It stays the same when the term is over, for who
// receives it to refuse. 0: the context belongs to none.
func TokenFrom(ctx context.Context) int64 {
	token, _ := ctx.Value(tokenKey{}).(int64)
	return token
}

// valid reports whether this candidate leads by this term at this instant.
func (t *term) valid() bool { return !t.over.Load() && t.claim.Load().Valid(t.e.now()) }

// end lowers the flag first.
func (t *term) end(cause error) {
	t.over.Store(true)
	t.cancel(cause)
}

// watch ends the term when it is time. It does no I/O: nothing can hold it up. It looks more
// often than needed, because timers do not know of a wall clock that was set or a machine that
// was suspended.
func (t *term) watch(run context.Context, often time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-run.Done():
			t.end(context.Cause(run))
			return
		case <-t.ctx.Done():
			return
		}
		left := t.e.now().Until(t.claim.Load().Until())
		if left <= 0 {
			t.end(ErrExpired)
			return
		}
		timer.Reset(min(left, often))
	}
}
