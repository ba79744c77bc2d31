package history

import (
	"context"

	"github.com/goverse/goverse/cluster/lock"
)

// Locks uses a registry of locks as one node and records the holds. Each lock that it takes is asked every
// millisecond whether it is valid, until it is released or answers no. All methods are safe for concurrent use.
type Locks struct {
	held     *sampledClaims
	registry lock.LockRegistry
}

// Locks returns a recording Locks for one node. It records until Stop.
func (r *Recorder) Locks(node string, registry lock.LockRegistry) *Locks {
	return &Locks{held: r.newSampledClaims(node, nil), registry: registry}
}

// LockRequest describes the lock to take.
type LockRequest struct {
	Name        string
	Shared, Try bool
}

// Acquire takes a lock. It blocks and fails as the registry's methods do. With Try, it returns nil and no error if
// the lock is not free.
func (l *Locks) Acquire(ctx context.Context, w LockRequest) (*Hold, error) {
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
	return &Hold{Held: held, claim: l.held.startClaim(Lock(w.Name), w.Shared, call, func() (int64, bool) {
		return held.Token(), held.Valid()
	})}, nil
}

// Hold is a lock that was taken. Each hold counts as a life of its own.
type Hold struct {
	lock.Held
	claim *sampledClaim
}

// Release asks the lock a last time and releases it; see [lock.Held].
func (h *Hold) Release(ctx context.Context) error {
	held := h.claim.endClaim()
	call := Now()
	err := h.Held.Release(ctx)
	if held {
		h.claim.recordEnd(Window{call, Now()})
	}
	return err
}
