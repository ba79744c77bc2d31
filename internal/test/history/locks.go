package history

import (
	"context"

	"github.com/goverse/goverse/cluster/lock"
)

// Locks is a registry of locks as one node uses it: each lock that it takes is asked every
// millisecond whether it is valid, from when it was taken until it is released or says that it
// is not. All methods are safe for concurrent use.
type Locks struct {
	held     *sampledClaims
	registry lock.LockRegistry
}

// Locks records what a node does with a registry, until Stop.
func (r *Recorder) Locks(node string, registry lock.LockRegistry) *Locks {
	return &Locks{held: r.sample(node, nil), registry: registry}
}

// Wanted is how a lock is to be taken.
type Wanted struct {
	Name        string
	Shared, Try bool
}

// Take takes a lock; it blocks and fails as the registry's methods do. Without an error the
// hold is nil if it was only tried, and is not free.
func (l *Locks) Take(ctx context.Context, w Wanted) (*Hold, error) {
	var opts []lock.Option
	if w.Shared {
		opts = append(opts, lock.Shared())
	}
	call := Now()
	var held lock.Held
	var err error
	if w.Try {
		held, _, err = l.registry.TryAcquire(ctx, w.Name, opts...)
	} else {
		held, err = l.registry.Acquire(ctx, w.Name, opts...)
	}
	if held == nil || err != nil {
		return nil, err
	}
	return &Hold{Held: held, claim: l.held.begin(Lock(w.Name), w.Shared, call, func() (int64, bool) {
		return held.Token(), held.Valid()
	})}, nil
}

// Hold is a lock that was taken; each counts as a life of its own.
type Hold struct {
	lock.Held
	claim *claim
}

// Release asks the lock a last time and releases it; see [lock.Held].
func (h *Hold) Release(ctx context.Context) error {
	held := h.claim.giveUp()
	call := Now()
	err := h.Held.Release(ctx)
	if held {
		h.claim.ended(Window{call, Now()})
	}
	return err
}
