package consensusmanager

import (
	"context"
	"sync"
)

// HoldAlone is Hold for what is to run once on this node: who calls it with the same key and name
// as another waits until that one's fn has returned, as it would if another node served the shard.
// Other names of the key do not wait for each other, nor does who calls Hold.
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

// turn is what one at a time has.
type turn struct{ key, name string }

// turns are those that somebody has. The zero value works.
type turns struct {
	mu    sync.Mutex
	taken map[turn]chan struct{} // closed when it is given back
}

// take waits until nobody has the turn, or ctx ends. Who has taken it calls done.
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

// try takes the turn, or returns what is closed when it is given back.
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
