package queues

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/state"
)

// ErrClosed: the engine's Run has ended.
var ErrClosed = errors.New("the node has stopped, or is stopping")

// Config is what an engine needs. All but Logger is required.
type Config struct {
	// Client reaches etcd. It is never closed.
	Client *clientv3.Client
	// Keeper has the sessions that the places stand on. One engine to a keeper and Keys.
	Keeper *session.Keeper
	// Keys is where the queues lie.
	Keys state.Queues
	// RequestTimeout bounds each request to etcd.
	RequestTimeout time.Duration
	// Logger gets one line per event an operator cares about.
	Logger hclog.Logger
}

// Engine is all places of this process in the queues under one root. All methods are safe for
// concurrent use.
type Engine struct {
	cfg Config

	mu      sync.Mutex
	run     *run          // on the present session, nil between two
	changed chan struct{} // closed when run changes
	closed  bool
	number  int64 // of the last entry
}

// New makes an engine; [Engine.Run] makes it live.
func New(cfg Config) *Engine {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Engine{cfg: cfg, changed: make(chan struct{})}
}

// Run serves on one session after the other until ctx ends, and returns when all it started
// has ended. It does not leave the queues: the session's end does.
func (e *Engine) Run(ctx context.Context) {
	var old *session.Session
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
		old = s
	}
	e.set(nil, true)
}

func (e *Engine) set(r *run, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run, e.closed = r, closed
	close(e.changed)
	e.changed = make(chan struct{})
}

// present waits for a session.
func (e *Engine) present(ctx context.Context) (*run, error) {
	for {
		e.mu.Lock()
		r, changed, closed := e.run, e.changed, e.closed
		e.mu.Unlock()
		switch {
		case closed:
			return nil, ErrClosed
		case r != nil:
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (e *Engine) next() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.number++
	return e.number
}

// Place is what somebody wants in a queue.
type Place struct {
	Name string
	// Value is what the key says, for others.
	Value string
	// Shared: to be first among those who do not share is enough.
	Shared bool
	// Try: not to wait.
	Try bool
}

// Enter queues on the present session, for which it waits until ctx ends; the entry settles
// later. Errors are ctx's cause and ErrClosed.
func (e *Engine) Enter(ctx context.Context, p Place) (*Entry, error) {
	r, err := e.present(ctx)
	if err != nil {
		return nil, err
	}
	return r.enter(p), nil
}
