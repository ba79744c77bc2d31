// Package etcdlock implements the locks of package lock in etcd, on the sessions of one process.
//
// Not promised: a release when the engine's Run ends. Closing the session releases what is held.
package etcdlock

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
)

// Held is implemented by every lock.Held of an [Registry].
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
	g, err := e.acquireGrant(ctx, name, false, lock.NewOptions(opts...))
	if err != nil {
		return nil, err
	}
	return heldLock{g}, nil
}

// TryAcquire implements [lock.LockRegistry].
func (e *Registry) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	g, err := e.acquireGrant(ctx, name, true, lock.NewOptions(opts...))
	switch {
	case errors.Is(err, leasequeue.ErrNotFirst):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return heldLock{g}, true, nil
}

func (e *Registry) acquireGrant(ctx context.Context, name string, try bool, o lock.Options) (*leasequeue.Grant, error) {
	if err := state.CheckName("lock", name); err != nil {
		return nil, err
	}
	return e.queues.Acquire(ctx, leasequeue.EntrySpec{Name: name, Value: e.owner, Shared: o.Shared, Try: try})
}

// heldLock is a grant in the queue of a lock.
type heldLock struct{ *leasequeue.Grant }

func (h heldLock) Name() string { return h.Grant.Name }

func (h heldLock) Guard() []clientv3.Cmp { return []clientv3.Cmp{h.Grant.Guard()} }

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
