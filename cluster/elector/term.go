package elector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/election"
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
	done   chan struct{} // closed when all it called has returned, AsLeader's functions too

	tail context.Context // lasts while a leader that is stopped waits for AsLeader's functions
	cut  context.CancelCauseFunc
	mu   sync.Mutex
	work int           // AsLeader's functions that run
	idle chan struct{} // closed when the term is over and none runs
}

// begin begins a term: it ends at the claim's deadline, or with run's context. Its goroutines
// are joined by waiting for done.
func (e *Elector) begin(run context.Context, token int64, claim deadline.Claim) *term {
	t := &term{e: e, token: token, done: make(chan struct{}), idle: make(chan struct{})}
	t.claim.Store(&claim)
	base := context.WithValue(context.WithoutCancel(run), tokenKey{}, token)
	t.ctx, t.cancel = context.WithCancelCause(base)
	t.tail, t.cut = context.WithCancelCause(base)
	e.term.Store(t)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(run, e.cfg.LeaseDuration/10)
	}()
	go func() {
		defer close(t.done)
		e.left("OnStartedLeading", callback.Finish(func() { e.cfg.OnStartedLeading(t.ctx) }))
		<-watched // the term is over
		<-t.idle
		e.left("OnStoppedLeading", callback.Finish(e.cfg.OnStoppedLeading))
	}()
	return t
}

// left says that a function of the user's has left its goroutine: that counts as a return.
func (e *Elector) left(function string, err error) {
	if err != nil {
		e.log.Error(function+" did not return", "error", err)
	}
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

// end lowers the flag first. Nothing else is broken off by it.
func (t *term) end(cause error) {
	t.mu.Lock()
	if !t.over.Swap(true) && t.work == 0 {
		close(t.idle)
	}
	t.mu.Unlock()
	t.cancel(cause)
}

// AsLeader runs fn at once if this candidate leads: for a request that only the leader may answer. It
// is work of the term, but Run's end does not break it off: Run waits for fn before it calls
// OnStoppedLeading and gives the lease back, and the lease is not renewed meanwhile. fn's context has
// the term's token ([TokenFrom]) and ctx's values; it ends with ctx, at the lease's deadline, or when
// the lease was taken, with ErrExpired or ErrTaken as its cause. AsLeader returns what fn returned; or
// election.ErrNotLeader, and fn did not run.
func (e *Elector) AsLeader(ctx context.Context, fn func(ctx context.Context, token int64) error) error {
	t := e.leading()
	if t == nil || !t.enter() {
		return election.ErrNotLeader
	}
	defer t.leave()
	work, stop := wait.Within(context.WithValue(ctx, tokenKey{}, t.token), t.tail)
	defer stop()
	return fn(work, t.token)
}

func (t *term) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.valid() {
		return false
	}
	t.work++
	return true
}

func (t *term) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.work--; t.work == 0 && t.over.Load() {
		close(t.idle)
	}
}

// watch ends the term when it is time, and what runs in AsLeader. It does no I/O: nothing can hold it
// up. It looks more often than needed, because timers do not know of a wall clock that was set or a
// machine that was suspended.
func (t *term) watch(run context.Context, often time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() { t.cut(context.Cause(t.ctx)) }()
	stopped, over := run.Done(), t.ctx.Done()
	for {
		select {
		case <-timer.C:
		case <-stopped:
			t.end(context.Cause(run))
			stopped, over = nil, nil // the deadline is still to be kept by what goes on
		case <-over:
			return
		case <-t.idle:
			return
		}
		left := t.e.now().Until(t.claim.Load().Until())
		if left <= 0 {
			t.end(ErrExpired)
			t.cut(ErrExpired)
			return
		}
		timer.Reset(min(left, often))
	}
}
