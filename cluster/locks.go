package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
)

// Locks are the locks of the cluster's nodes, by name, on this node's session. It is never nil: until
// Start has returned its error is ErrNotStarted, after Stop ErrStopped. Stop ends the contexts of those
// that are held, and waits for them as long as Config.WorkTimeout.
func (c *Cluster) Locks() lock.LockRegistry { return c.locks }

type locks struct{ c *Cluster }

// Acquire implements lock.LockRegistry.
func (l locks) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, error) {
	p, err := l.c.running()
	if err != nil {
		return nil, err
	}
	return p.work.locks.Acquire(ctx, name, opts...)
}

// TryAcquire implements lock.LockRegistry.
func (l locks) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	p, err := l.c.running()
	if err != nil {
		return nil, false, err
	}
	return p.work.locks.TryAcquire(ctx, name, opts...)
}

// ListLocks reads how the locks stand that somebody holds or waits for, in the whole cluster; more says that there
// are others behind the last. Each is read at one revision, and not all at the same. It blocks until etcd has
// answered, or ctx ends. Errors are ErrNotStarted, ErrStopped, an [UnfinishedError], and etcd's.
func (c *Cluster) ListLocks(ctx context.Context, q lock.Query) (found []lock.Standing, more bool, err error) {
	p, err := c.running()
	if err != nil {
		return nil, false, err
	}
	return etcdlock.List(ctx, p.client, c.keys, q)
}
