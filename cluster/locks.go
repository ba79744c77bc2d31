package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
)

// Locks implements [lock.LockRegistry]: it grants the cluster's named locks, on this node's session. Its error is
// ErrNotStarted until Start has returned, and ErrStopped after Stop. Stop ends the contexts of held locks, and
// waits up to Config.WorkTimeout for their release.
type Locks struct{ c *Cluster }

// Locks returns the handle for named locks. It is never nil.
func (c *Cluster) Locks() *Locks { return &c.locks }

// Acquire implements [lock.LockRegistry].
func (l *Locks) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, error) {
	p, err := l.c.runningParts()
	if err != nil {
		return nil, err
	}
	return p.work.locks.Acquire(ctx, name, opts...)
}

// TryAcquire implements [lock.LockRegistry].
func (l *Locks) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	p, err := l.c.runningParts()
	if err != nil {
		return nil, false, err
	}
	return p.work.locks.TryAcquire(ctx, name, opts...)
}

// List reads the states of the locks in the cluster that are held or waited for; more reports whether others
// follow the last one. Each is read at one revision, but not all at the same one. List blocks until etcd has
// answered, or ctx ends. Errors are ErrNotStarted, ErrStopped, an [UnfinishedError], and etcd's.
func (l *Locks) List(ctx context.Context, q lock.Query) (found []lock.Standing, more bool, err error) {
	p, err := l.c.runningParts()
	if err != nil {
		return nil, false, err
	}
	return etcdlock.List(ctx, p.client, l.c.keys, q)
}
