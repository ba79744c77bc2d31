package consensusmanager

import (
	"context"
	"sync"
)

// HoldAlone is like Hold, for a function that must run only once on this node. A second caller with the same
// key and name waits until the first one's fn has returned, as it would if another node served the shard.
// Callers with other names, and callers of Hold, do not wait for it.
func (h *Shards) HoldAlone(ctx context.Context, key, name string,
	fn func(ctx context.Context, epoch int64) error) error {
	for {
		moved := false
		err := h.Hold(ctx, key, func(held context.Context, epoch int64) error {
			done, err := h.aloneMutex.lock(held, mutexKey{key, name})
			if err != nil {
				moved = true
				return err
			}
			defer done()
			return fn(held, epoch)
		})
		if !moved || ctx.Err() != nil {
			return err
		}
	}
}

// mutexKey is the key of a mutual exclusion.
type mutexKey struct{ key, name string }

// keyedMutex holds the turns that are taken. The zero value is ready to use.
type keyedMutex struct {
	mu   sync.Mutex
	held map[mutexKey]chan struct{} // closed when the turn is given back
}

// lock blocks until the caller has the turn, or ctx ends. The caller must give the turn back with done.
func (t *keyedMutex) lock(ctx context.Context, its mutexKey) (done func(), err error) {
	for ctx.Err() == nil {
		taken, ok := t.tryLock(its)
		if ok {
			return func() { t.unlock(its) }, nil
		}
		select {
		case <-taken:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

// tryLock takes the turn, or returns a channel that is closed when the turn is given back.
func (t *keyedMutex) tryLock(its mutexKey) (taken <-chan struct{}, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.held[its]; c != nil {
		return c, false
	}
	if t.held == nil {
		t.held = map[mutexKey]chan struct{}{}
	}
	t.held[its] = make(chan struct{})
	return nil, true
}

func (t *keyedMutex) unlock(its mutexKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.held[its])
	delete(t.held, its)
}
