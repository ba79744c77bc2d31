// Package etcdlock keeps the locks of package lock in etcd, on the sessions of one process.
//
// Not promised: that what is held is released when Run ends; that is done by closing the
// session.
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

// Held is what every lock.Held of an [Etcd] is.
type Held interface {
	lock.Held
	// Key is the key in etcd that this grant stands on: its CreateRevision is the token while
	// the grant stands. Programs that cannot have Guard compare that.
	Key() string
}

// Etcd is a registry whose locks lie in etcd, on the sessions of an engine.
type Etcd struct {
	queues *leasequeue.Queues
	owner  string
}

// NewEtcd makes a registry of the locks in these queues, which lie at state.Keys.Locks; it is live while their
// engine runs. Owner is written down beside each lock, for people.
func NewEtcd(queues *leasequeue.Queues, owner string) *Etcd {
	return &Etcd{queues: queues, owner: owner}
}

// Acquire implements lock.LockRegistry.
func (e *Etcd) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, error) {
	x, err := e.take(ctx, name, false, lock.NewOptions(opts...))
	if err != nil {
		return nil, err
	}
	return held{x}, nil
}

// TryAcquire implements lock.LockRegistry.
func (e *Etcd) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	x, err := e.take(ctx, name, true, lock.NewOptions(opts...))
	switch {
	case errors.Is(err, leasequeue.ErrTaken):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return held{x}, true, nil
}

func (e *Etcd) take(ctx context.Context, name string, try bool, o lock.Options) (*leasequeue.Entry, error) {
	if err := state.CheckName("lock", name); err != nil {
		return nil, err
	}
	return e.queues.Take(ctx, leasequeue.Want{Name: name, Value: e.owner, Shared: o.Shared, Try: try})
}

// held is the first place in a lock's queue.
type held struct{ *leasequeue.Entry }

func (h held) Name() string { return h.Entry.Name }

func (h held) Guard() []clientv3.Cmp { return []clientv3.Cmp{h.Entry.Guard()} }

func (h held) Release(ctx context.Context) error {
	lost, err := h.Leave(ctx)
	switch {
	case lost != nil:
		return &lock.LostError{Name: h.Entry.Name, Token: h.Token(), Err: lost}
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("lock %q, token %d: etcd refuses its release, and is asked again until the session ends: %w",
			h.Entry.Name, h.Token(), err)
	}
	return err
}

// Close hands out no lock any more, ends the context of every lock that is held, with
// lock.ErrStopped, and has those who wait leave with it. It blocks until all locks are
// released, or ctx ends, with its cause for an error.
func (e *Etcd) Close(ctx context.Context) error { return e.queues.Close(ctx) }
