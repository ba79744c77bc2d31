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

// Engine serves all entries of this process, on its session. All methods are safe for concurrent use.
type Engine struct {
	cfg         Config
	counters    state.Queues // root of the batch counters
	watchStream atomic.Int64 // number of the watch stream; grows when etcd refuses watches on it

	// mu is the only lock of the package. While it is held no unknown code is called, and nothing that takes
	// another lock, except context.Cause and Period.EndCause, whose lock is held for moments and by no caller of this
	// package.
	mu      sync.Mutex
	notices []func() // called once mu is released
	queues  []*Queues
	run     *sessionRun   // on the present session; nil between two sessions
	changed chan struct{} // closed when run, ended, or the usability of the session changes
	ended   bool
}

// New returns an engine that keeps its batch counters under the given root. It does nothing until [Engine.Run].
// Use at most one engine for each keeper and root. The error describes a mistake in the configuration.
func New(cfg Config, counters state.Queues) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("leasequeue: %w", err)
	}
	cfg.Process = cfg.Process.WithDefaults()
	return &Engine{cfg: cfg, counters: counters, changed: make(chan struct{})}, nil
}

// unlock releases mu and delivers the queued notices.
func (e *Engine) unlock() {
	notices := e.notices
	e.notices = nil
	e.mu.Unlock()
	for _, call := range notices {
		call()
	}
}

// withLock calls do with mu held.
func (e *Engine) withLock(do func()) {
	e.mu.Lock()
	defer e.unlock()
	do()
}

// queueNotice queues a call for the moment when mu is released. Calls run in order. The caller holds mu.
func (e *Engine) queueNotice(call func()) {
	if call != nil {
		e.notices = append(e.notices, call)
	}
}

// newBackoff returns the back-off of one loop.
func (e *Engine) newBackoff(p backoff.Policy) backoff.Backoff {
	return backoff.Backoff{Policy: p, Random: e.cfg.Random}
}

// Run serves one session after the other until ctx ends. It returns when all its goroutines have ended. It does
// not release the entries; they go with the session.
func (e *Engine) Run(ctx context.Context) {
	var old *etcdsession.Session
	for {
		s, err := e.cfg.Keeper.Wait(ctx, old)
		if err != nil {
			break
		}
		r := newSessionRun(e, s)
		e.beginRun(r)
		r.serveSession(ctx)
		e.finishRun(r)
		old = s
	}
	e.mu.Lock()
	defer e.unlock()
	e.ended = true
	e.signalChange()
}

// beginRun lets entries be added on r's session.
func (e *Engine) beginRun(r *sessionRun) {
	e.mu.Lock()
	defer e.unlock()
	e.run = r
	for _, q := range e.queues {
		q.entries = 0
		for f := range q.followers {
			r.addFollower(f)
		}
	}
	e.signalChange()
}

// finishRun stops accepting entries on r's session, waits until its goroutines have ended, and fails the entries
// that are left. Followers know nothing until the next session.
func (e *Engine) finishRun(r *sessionRun) {
	e.mu.Lock()
	e.run, r.ended = nil, true
	e.signalChange()
	e.unlock()
	r.stopAndWait()
	e.mu.Lock()
	defer e.unlock()
	for _, x := range r.entries {
		x.applyChange(x.state.Load().FailGrant(ErrEntryLost))
	}
	for _, q := range e.queues {
		for f := range q.followers {
			f.forgetContents()
		}
	}
}

// signalChange wakes all that wait for a change. The caller holds mu.
func (e *Engine) signalChange() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// hasSession reports whether there is a session. The caller holds mu.
func (e *Engine) hasSession() bool { return e.run != nil && e.run.ctx.Err() == nil }
