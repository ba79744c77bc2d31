package leasequeue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// Engine is all entries of this process on its session. All methods are safe for concurrent use.
type Engine struct {
	cfg      Config
	counters state.Queues // where the numbers of batches lie
	stream   atomic.Int64 // of watches; counts those that etcd refuses watches on

	// mu is the only lock of the package. Nothing is called with it held that takes another one, but for
	// context.Cause, or that is not known here.
	mu      sync.Mutex
	notices []func() // to be called when it was released
	queues  []*Queues
	run     *run          // on the present session, nil between two
	changed chan struct{} // closed when run or ended changes, or whether the session may be acted on
	ended   bool
}

// New makes an engine whose batches are numbered by keys under that root; [Engine.Run] makes it live. One
// engine to a keeper and root. The error says what is wrong with the configuration.
func New(cfg Config, counters state.Queues) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("leasequeue: %w", err)
	}
	return &Engine{cfg: cfg.withDefaults(), counters: counters, changed: make(chan struct{})}, nil
}

// unlock releases the lock, and delivers what came up under it.
func (e *Engine) unlock() {
	notices := e.notices
	e.notices = nil
	e.mu.Unlock()
	for _, call := range notices {
		call()
	}
}

// with does something with the lock held.
func (e *Engine) with(do func()) {
	e.mu.Lock()
	defer e.unlock()
	do()
}

// later has something called when the lock was released, in the order of the calls. The lock is held.
func (e *Engine) later(call func()) {
	if call != nil {
		e.notices = append(e.notices, call)
	}
}

// retry is the back-off of one loop.
func (e *Engine) retry(p backoff.Policy) backoff.Backoff {
	return backoff.Backoff{Policy: p, Random: e.cfg.Random}
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
		e.begin(r)
		r.serve(ctx)
		e.finish(r)
		old = s
	}
	e.mu.Lock()
	defer e.unlock()
	e.ended = true
	e.change()
}

// begin has entries made on a session.
func (e *Engine) begin(r *run) {
	e.mu.Lock()
	defer e.unlock()
	e.run = r
	for _, q := range e.queues {
		q.entries = 0
		for f := range q.followers {
			r.follow(f)
		}
	}
	e.change()
}

// finish lets nothing begin on a session any more, and returns when nothing goes on. Without a session nothing is
// known.
func (e *Engine) finish(r *run) {
	e.mu.Lock()
	e.run, r.ended = nil, true
	e.change()
	e.unlock()
	r.join()
	e.mu.Lock()
	defer e.unlock()
	for _, x := range r.entries {
		x.end(ErrAgain)
	}
	for _, q := range e.queues {
		for f := range q.followers {
			f.forget()
		}
	}
}

// change notifies all who wait for one. The lock is held.
func (e *Engine) change() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// ready reports whether there is a session. The lock is held.
func (e *Engine) ready() bool { return e.run != nil && e.run.ctx.Err() == nil }
