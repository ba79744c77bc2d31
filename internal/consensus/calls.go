package consensus

import (
	"context"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/shardplan"
)

// Enter counts a call into a shard if this node serves it at this instant; Exit counts it out. The shard is not handed
// over in between, unless the session is lost.
func (h *Shards) Enter(n int) (epoch int64, ok bool) { return h.slots[n].admit() }

// Reenter is Enter for a call that something waits for which runs in the shard: it is let in also while that is waited
// for before the shard is handed over.
func (h *Shards) Reenter(n int) (epoch int64, ok bool) { return h.slots[n].readmit() }

// Exit follows each Enter and Reenter that was ok.
func (h *Shards) Exit(n int) { h.slots[n].leave() }

// Holds reports whether this node has the shard under that epoch at this instant: it serves it, or lets what runs in it
// end. Nobody else has it then.
func (h *Shards) Holds(n int, epoch int64) bool { return h.slots[n].holds(epoch) }

// Drained is the context of what runs in a shard until it has to be cut off: it ends with [shard.ErrNotOwner] when the
// drain time-out has passed, and with the session's deadline. It is for who has entered.
func (h *Shards) Drained(n int) context.Context {
	s := &h.slots[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.context()
}

// Staying is Drained for what ends as soon as the shard is to be handed over.
func (h *Shards) Staying(n int) context.Context {
	s := &h.slots[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.staying()
}

// Await blocks until this node serves the shard; or the map says, in that generation or a later one, that
// another node owns it, or nobody, or this node leaves, or the session by which this node owned it is over, which are a
// [shard.NotOwnerError]; or ctx ends. After such a session only another map makes anybody serve the shard, and this
// node may be the last to see it.
func (h *Shards) Await(ctx context.Context, n int, generation int64) error {
	slot := &h.slots[n]
	sub := h.cfg.Mirror.Subscribe(shardplan.ShardsChanged)
	defer sub.Close()
	for {
		awaited := slot.await()
		if awaited == nil || slot.confirm(ctx) {
			return nil
		}
		owner, _, _ := h.OwnerOf(n)
		if owner.Address != h.cfg.Address && h.Generation() >= generation {
			return h.refusal(n)
		}
		h.mu.Lock()
		leaving, changed, over, lost := h.leaving, h.none, h.over, h.lost
		h.mu.Unlock()
		switch {
		case lost != sharding.Owner{} && owner == lost:
			return h.refusal(n)
		case !leaving:
			changed = h.left
		case slot.free(): // nobody else may be there to make another map
			return h.refusal(n)
		}
		select {
		case <-changed:
		case <-awaited:
			return nil
		case <-sub.C:
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.patience.Done():
			return h.refusal(n)
		}
	}
}

// Generation is the version of the shard map as far as this node knows, 0 without one.
func (h *Shards) Generation() int64 {
	if m := h.cfg.Mirror.Snapshot().Map(); m != nil {
		return m.Generation()
	}
	return 0
}
