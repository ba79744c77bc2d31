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
			done, err := h.turns.take(held, turn{key, name})
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

// turn is the key of a mutual exclusion.
type turn struct{ key, name string }

// turns holds the turns that are taken. The zero value is ready to use.
type turns struct {
	mu    sync.Mutex
	taken map[turn]chan struct{} // closed when the turn is given back
}

// take blocks until the caller has the turn, or ctx ends. The caller must give the turn back with done.
func (t *turns) take(ctx context.Context, its turn) (done func(), err error) {
	for ctx.Err() == nil {
		taken, ok := t.try(its)
		if ok {
			return func() { t.giveBack(its) }, nil
		}
		select {
		case <-taken:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

// try takes the turn, or returns a channel that is closed when the turn is given back.
func (t *turns) try(its turn) (taken <-chan struct{}, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.taken[its]; c != nil {
		return c, false
	}
	if t.taken == nil {
		t.taken = map[turn]chan struct{}{}
	}
	t.taken[its] = make(chan struct{})
	return nil, true
}

func (t *turns) giveBack(its turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.taken[its])
	delete(t.taken, its)
}
