package leasequeue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// Engine is all places of this process in the queues under one root. All methods are safe for
// concurrent use.
type Engine struct {
	cfg    Config
	queues state.Queues

	mu      sync.Mutex
	run     *run          // on the present session, nil between two
	changed chan struct{} // closed when run or closed changes
	closed  bool

	followers map[*Follower]struct{}
}

// New makes an engine for the queues that lie there; [Engine.Run] makes it live. The configuration is not
// checked.
func New(cfg Config, queues state.Queues) *Engine {
	return &Engine{cfg: cfg.WithDefaults(), queues: queues, changed: make(chan struct{})}
}

// retry is the back-off of one loop.
func (e *Engine) retry(p backoff.Policy) backoff.Backoff {
	return backoff.Backoff{Policy: p, Random: e.cfg.Random}
}

// keys are those of the queues, or of the requests about them.
func (e *Engine) keys(requests bool) state.Queues {
	if requests {
		return e.queues.Requests()
	}
	return e.queues
}

// Run serves on one session after the other until ctx ends, and returns when all it started
// has ended. It does not leave the queues: the session's end does.
func (e *Engine) Run(ctx context.Context) {
	var old *etcdsession.Session
	for {
		s, err := e.cfg.Keeper.Wait(ctx, old)
		if err != nil {
			break
		}
		r := newRun(e, s)
		e.set(r, false)
		r.serve(ctx)
		e.set(nil, false)
		r.end()
		e.forget()
		old = s
	}
	e.set(nil, true)
}

func (e *Engine) set(r *run, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r != nil && r != e.run {
		for f := range e.followers {
			r.follow(f)
		}
	}
	e.run, e.closed = r, e.closed || closed
	e.change()
}

// change notifies all who wait for one. The lock is held.
func (e *Engine) change() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// forget: without a session nothing is known.
func (e *Engine) forget() {
	e.mu.Lock()
	followers := slices.Collect(maps.Keys(e.followers))
	e.mu.Unlock()
	for _, f := range followers {
		f.forget()
	}
}

// Close lets nobody enter any more, ends the contexts of all who are first, with lifecycle.ErrStopped,
// and has those who wait leave. It blocks until all have left, or ctx ends; the error is then
// ctx's cause.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	r := e.run
	e.closed = true
	e.change()
	e.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.expelAll(ctx)
}

// present waits for a session.
func (e *Engine) present(ctx context.Context) (*run, error) {
	for {
		e.mu.Lock()
		r, changed, closed := e.run, e.changed, e.closed
		e.mu.Unlock()
		switch {
		case closed:
			return nil, lifecycle.ErrStopped
		case r != nil && r.ctx.Err() == nil:
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Changed is closed at the next change of the session that places stand on, or of whether it may
// be acted on.
func (e *Engine) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// Place is what somebody wants in a queue.
type Place struct {
	Name string
	// Value is what the key says, for others.
	Value string
	// Priority is seen by others, who may let the place pass: see order.Queue.Target.
	Priority int
	// Shared: to be first among those who do not share is enough.
	Shared bool
	// Request: it is a place in the queue of the requests about that name.
	Request bool
	// Try: not to wait.
	Try bool
	// Notify, if set, is called when the entry has its token, when it settles, and when one that is first is revoked
	// or its key gone; not when the session ends what stands on it: see [Engine.Changed]. It
	// must not block, nor ask the entry.
	Notify func()
}

// Enter queues on the present session, for which it waits until ctx ends; the entry settles
// later. Errors are ctx's cause and lifecycle.ErrStopped.
func (e *Engine) Enter(ctx context.Context, p Place) (*Entry, error) {
	r, err := e.present(ctx)
	if err != nil {
		return nil, err
	}
	return r.enter(p), nil
}

// TryEnter is Enter without waiting for a session: it returns nil where there is none.
func (e *Engine) TryEnter(p Place) *Entry {
	e.mu.Lock()
	r, closed := e.run, e.closed
	e.mu.Unlock()
	if r == nil || closed || r.ctx.Err() != nil {
		return nil
	}
	return r.enter(p)
}

// Take queues, on one session after the other, until the place is first, or ctx ends. Errors
// are ctx's cause, lifecycle.ErrStopped, ErrTaken, and what etcd refused.
func (e *Engine) Take(ctx context.Context, p Place) (*Entry, error) {
	for ctx.Err() == nil {
		x, err := e.Enter(ctx, p)
		if err != nil {
			return nil, err
		}
		select {
		case <-x.Settled():
		case <-x.Lost():
			continue // the session, and with it the place
		case <-ctx.Done():
			x.Abandon()
			return nil, context.Cause(ctx)
		}
		switch err := x.Err(); {
		case err == nil:
			return x, nil
		case errors.Is(err, ErrTaken):
			_ = x.Gone(ctx) // until then it is in the way of others who try
			return nil, err
		case !errors.Is(err, ErrAgain):
			return nil, err
		}
	}
	return nil, context.Cause(ctx)
}
