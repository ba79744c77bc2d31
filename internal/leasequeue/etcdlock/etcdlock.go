// Package etcdlock implements the locks of package lock in etcd, on the sessions of one process.
//
// Not promised: a release when the engine's Run ends. Closing the session releases what is held.
package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// Held is implemented by every lock.Held of a [Registry].
type Held interface {
	lock.Held
	// Key returns the key in etcd that the grant rests on. While the grant stands, the key's CreateRevision is
	// the token. Programs that cannot use Guard compare that.
	Key() string
}

// Registry is a lock registry in etcd, on the sessions of an engine.
type Registry struct {
	queues *leasequeue.Queues
	owner  string
}

// NewRegistry returns a registry of the locks in these queues, which must be those at state.Keys.Locks. It works
// while their engine runs. owner is stored with each lock, for operators.
func NewRegistry(queues *leasequeue.Queues, owner string) *Registry {
	return &Registry{queues: queues, owner: owner}
}

// Acquire implements [lock.LockRegistry].
func (e *Registry) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, error) {
	g, err := e.acquireGrant(ctx, name, false, opts)
	if err != nil {
		return nil, err
	}
	return heldLock{g, e.queues.Client()}, nil
}

// TryAcquire implements [lock.LockRegistry].
func (e *Registry) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	g, err := e.acquireGrant(ctx, name, true, opts)
	switch {
	case errors.Is(err, leasequeue.ErrNotFirst):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return heldLock{g, e.queues.Client()}, true, nil
}

func (e *Registry) acquireGrant(ctx context.Context, name string, try bool, opts []lock.Option) (*leasequeue.Grant,
	error) {
	var o lock.Options
	for _, opt := range opts {
		opt(&o)
	}
	if err := state.CheckName("lock", name); err != nil {
		return nil, err
	}
	return e.queues.Acquire(ctx, leasequeue.EntrySpec{Name: name, Value: e.owner, Shared: o.Shared, Try: try})
}

// heldLock is a grant in the queue of a lock.
type heldLock struct {
	*leasequeue.Grant
	client *clientv3.Client
}

func (h heldLock) Name() string { return h.Grant.Name }

func (h heldLock) Guard() []clientv3.Cmp { return []clientv3.Cmp{h.Grant.Guard()} }

func (h heldLock) Txn(ctx context.Context) clientv3.Txn {
	return txn.Fenced(ctx, h.client, txn.Fence{Guards: h.Guard(),
		CheckOver:    func() error { return h.overError(h.EndCause()) },
		RefusedError: func() error { return h.overError(cmp.Or(h.EndCause(), lock.ErrKeyLost)) }})
}

// overError returns the error of a lock that is not held any more because of why, or nil if why is nil.
func (h heldLock) overError(why error) error {
	switch {
	case why == nil:
		return nil
	case errors.Is(why, lock.ErrReleased):
		return fmt.Errorf("lock %q, token %d: %w", h.Grant.Name, h.Token(), why)
	}
	return &lock.LostError{Name: h.Grant.Name, Token: h.Token(), Err: why}
}

func (h heldLock) Release(ctx context.Context) error {
	lost, err := h.ReleaseAndWait(ctx)
	switch {
	case lost != nil:
		return &lock.LostError{Name: h.Grant.Name, Token: h.Token(), Err: lost}
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("lock %q, token %d: etcd refuses its release, and is asked again until the session ends: %w",
			h.Grant.Name, h.Token(), err)
	}
	return err
}

// Close grants no further locks, ends the contexts of all held locks with lock.ErrStopped, and makes the
// waiting calls fail with it. It blocks until all locks are released. If ctx ends first, it returns an error
// that wraps ctx's cause.
func (e *Registry) Close(ctx context.Context) error { return e.queues.Close(ctx) }
