package elector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
)

// term is one unbroken period of this candidate's leadership.
type term struct {
	e     *Elector
	token int64
	claim atomic.Pointer[deadline.Claim]
	ctx   context.Context // of OnStartedLeading; it ends with the term
	done  chan struct{}   // closed when all callbacks have returned, and the functions of Lead and AsLeader

	mu    sync.Mutex
	scope *termscope.Scope // of the functions of Lead and AsLeader; its lock is mu
	idle  chan struct{}    // closed when the term is over and none of them runs
}

// startTerm begins a term, which ends at the claim's deadline or with run's context. Wait for done to join its
// goroutines.
func (e *Elector) startTerm(run context.Context, token int64, claim deadline.Claim) *term {
	t := &term{e: e, token: token, done: make(chan struct{}), idle: make(chan struct{})}
	t.claim.Store(&claim)
	never := termscope.EndOf(context.Background()) // only endTerm and CutOff end it
	t.scope = termscope.New(termscope.Owner{Lock: &t.mu, OnIdle: func() { close(t.idle) }}, never, never)
	t.ctx, _ = t.scope.Bind(context.WithValue(context.WithoutCancel(run), tokenKey{}, token))
	e.term.Store(t)
	e.terms.notify(false)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watchDeadline(run, e.cfg.LeaseDuration/10)
	}()
	go func() {
		defer close(t.done)
		e.logAbandoned("OnStartedLeading", callback.RunUnrecovered(func() { e.cfg.OnStartedLeading(t.ctx) }))
		<-watched // until the term is over
		<-t.idle
		e.logAbandoned("OnStoppedLeading", callback.RunUnrecovered(e.cfg.OnStoppedLeading))
	}()
	return t
}

// logAbandoned logs that a callback left its goroutine without returning, which counts as a return.
func (e *Elector) logAbandoned(function string, err error) {
	if err != nil {
		e.log.Error(function+" did not return", "error", err)
	}
}

type tokenKey struct{}

// TokenFrom returns the fencing token of the term that a context belongs to: the context of OnStartedLeading,
// Lead or AsLeader, or one derived from it. The token is greater than 0. It stays the same after the term is over, so
// that receivers can refuse it. TokenFrom returns 0 for other contexts.
func TokenFrom(ctx context.Context) int64 {
	token, _ := ctx.Value(tokenKey{}).(int64)
	return token
}

// valid reports whether this candidate leads in this term at this instant.
func (t *term) valid() bool { return !t.scope.Ended() && t.claim.Load().Valid(t.e.now()) }

// endTerm ends the term: first its flag, then its context. Functions of AsLeader go on.
func (t *term) endTerm(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scope.End(cause)
}

// AsLeader runs fn at once if this candidate leads, for example to answer a request that only the leader may
// answer. Otherwise it returns leaderelection.ErrNotLeader without running fn.
//
// The end of Run does not interrupt fn. Run waits for fn before it calls OnStoppedLeading and releases the
// lease; the lease is not renewed in the meantime. fn's context holds ctx's values and the term's token
// ([TokenFrom]). It ends with ctx, at the lease's deadline, or when the lease is taken; in the latter two cases
// its cause is ErrExpired or ErrTaken. AsLeader returns fn's error.
func (e *Elector) AsLeader(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	t := e.currentTerm()
	if t == nil || !t.enter() {
		return leaderelection.ErrNotLeader
	}
	return t.scope.RunIntoTail(context.WithValue(ctx, tokenKey{}, t.token), func(ctx context.Context) error {
		return fn(ctx, t.token)
	})
}

// enter counts a function of Lead or AsLeader. It reports whether this candidate leads.
func (t *term) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.valid() && t.scope.Enter()
}

// watchDeadline ends the term and its AsLeader functions when they are due. It does no I/O, so nothing can delay it.
// It checks more often than needed, because timers do not notice a wall clock that was set or a machine that was
// suspended.
func (t *term) watchDeadline(run context.Context, often time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() { t.scope.CutOff(t.scope.EndCause()) }()
	stopped, over := run.Done(), t.ctx.Done()
	for {
		select {
		case <-timer.C:
		case <-stopped:
			t.endTerm(context.Cause(run))
			stopped, over = nil, nil // functions that go on must still respect the deadline
		case <-over:
			return
		case <-t.idle:
			return
		}
		left := t.e.now().Until(t.claim.Load().ValidUntil())
		if left <= 0 {
			t.endTerm(ErrExpired)
			t.scope.CutOff(ErrExpired)
			return
		}
		timer.Reset(min(left, often))
	}
}
