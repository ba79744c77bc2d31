package lock

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

// Config is what locks in etcd need. Client, Keeper and Queues are required.
type Config struct {
	// Client reaches etcd. It is never closed.
	Client *clientv3.Client
	// Keeper has the session that all locks stand on. One registry to a keeper and Queues.
	Keeper *session.Keeper
	// Queues is where the locks lie: state.Keys.Locks.
	Queues state.Queues
	// Owner is written down beside each lock, for people.
	Owner string
	// RequestTimeout bounds each request to etcd. Default 2 s.
	RequestTimeout time.Duration
	// Logger gets one line per event an operator cares about. Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return errors.New("lock: Config.Client is nil; give it an etcd client")
	case c.Keeper == nil:
		return errors.New("lock: Config.Keeper is nil; give it a session keeper that runs")
	case c.Queues == state.Queues{}:
		return errors.New("lock: Config.Queues is empty; give it state.Keys.Locks")
	}
	return nil
}

// Guarded is what every [Held] of an [Etcd] is.
type Guarded interface {
	Held
	// Guard holds in a transaction of etcd's exactly while this grant stands: what is written
	// to etcd under the lock is written under this condition.
	Guard() clientv3.Cmp
}

// Etcd is a registry whose locks lie in etcd, on the sessions of a keeper.
type Etcd struct {
	cfg Config

	mu      sync.Mutex
	run     *run          // on the present session, nil between two
	changed chan struct{} // closed when run changes
	closed  bool
	number  int64 // of the last entry
}

// NewEtcd checks the configuration; [Etcd.Run] makes the registry live.
func NewEtcd(cfg Config) (*Etcd, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Etcd{cfg: cfg.withDefaults(), changed: make(chan struct{})}, nil
}

// Run serves on one session after the other until ctx ends, and returns when all it started
// has ended. It does not release what is held: that is done by whoever closes the session.
func (e *Etcd) Run(ctx context.Context) {
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

func (e *Etcd) set(r *run, closed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.run, e.closed = r, closed
	close(e.changed)
	e.changed = make(chan struct{})
}

// present waits for a session.
func (e *Etcd) present(ctx context.Context) (*run, error) {
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

func (e *Etcd) next() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.number++
	return e.number
}

// Acquire implements [LockRegistry].
func (e *Etcd) Acquire(ctx context.Context, name string, opts ...Option) (Held, error) {
	x, err := e.take(ctx, name, false, gather(opts))
	if err != nil {
		return nil, err
	}
	return x, nil
}

// TryAcquire implements [LockRegistry].
func (e *Etcd) TryAcquire(ctx context.Context, name string, opts ...Option) (Held, bool, error) {
	x, err := e.take(ctx, name, true, gather(opts))
	switch {
	case errors.Is(err, errTaken):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return x, true, nil
}

// take queues, on one session after the other, until the lock is held.
func (e *Etcd) take(ctx context.Context, name string, try bool, o options) (*entry, error) {
	if err := state.CheckName(name); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		r, err := e.present(ctx)
		if err != nil {
			return nil, err
		}
		x := r.enter(name, try, o)
		select {
		case <-x.settled:
		case <-ctx.Done():
			x.abandon()
			return nil, context.Cause(ctx)
		case <-r.ctx.Done():
			continue // the session is lost, and the place in the queue with it
		}
		if err := x.outcome(); !errors.Is(err, errAgain) {
			return x, err
		}
	}
	return nil, context.Cause(ctx)
}
