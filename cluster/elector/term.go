package elector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/wait"
)

// term is one unbroken period of this candidate's leadership.
type term struct {
	e      *Elector
	token  int64
	claim  atomic.Pointer[deadline.Claim]
	over   atomic.Bool
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when all callbacks have returned, including AsLeader's functions

	workCtx    context.Context // outlasts ctx while a stopping leader waits for AsLeader's functions
	cancelWork context.CancelCauseFunc
	mu         sync.Mutex
	running    int           // number of AsLeader's functions that run
	idle       chan struct{} // closed when the term is over and none of them runs
}

// startTerm begins a term, which ends at the claim's deadline or with run's context. Wait for done to join its
// goroutines.
func (e *Elector) startTerm(run context.Context, token int64, claim deadline.Claim) *term {
	t := &term{e: e, token: token, done: make(chan struct{}), idle: make(chan struct{})}
	t.claim.Store(&claim)
	base := context.WithValue(context.WithoutCancel(run), tokenKey{}, token)
	t.ctx, t.cancel = context.WithCancelCause(base)
	t.workCtx, t.cancelWork = context.WithCancelCause(base)
	e.term.Store(t)
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

// TokenFrom returns the fencing token of the term that a context belongs to: the context of OnStartedLeading or
// AsLeader, or one derived from it. The token is greater than 0. It stays the same after the term is over, so
// that receivers can refuse it. TokenFrom returns 0 for other contexts.
func TokenFrom(ctx context.Context) int64 {
	token, _ := ctx.Value(tokenKey{}).(int64)
	return token
}

// valid reports whether this candidate leads in this term at this instant.
func (t *term) valid() bool { return !t.over.Load() && t.claim.Load().Valid(t.e.now()) }

// endTerm ends the term: first its flag, then its context. Functions of AsLeader go on.
func (t *term) endTerm(cause error) {
	t.mu.Lock()
	if !t.over.Swap(true) && t.running == 0 {
		close(t.idle)
	}
	t.mu.Unlock()
	t.cancel(cause)
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
	defer t.leave()
	work, stop := wait.MergeContexts(context.WithValue(ctx, tokenKey{}, t.token), t.workCtx)
	defer stop()
	return fn(work, t.token)
}

func (t *term) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.valid() {
		return false
	}
	t.running++
	return true
}

func (t *term) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running--; t.running == 0 && t.over.Load() {
		close(t.idle)
	}
}

// watchDeadline ends the term and its AsLeader functions when they are due. It does no I/O, so nothing can delay it. It
// checks more often than needed, because timers do not notice a wall clock that was set or a machine that was
// suspended.
func (t *term) watchDeadline(run context.Context, often time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() { t.cancelWork(context.Cause(t.ctx)) }()
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
			t.cancelWork(ErrExpired)
			return
		}
		timer.Reset(min(left, often))
	}
}
