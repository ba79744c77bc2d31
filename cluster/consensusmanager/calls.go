package consensusmanager

import (
	"context"
	"math"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
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

// Await blocks until this node serves the shard: nil; or does not, by a map of another generation than seen; or ctx
// ends. It does not by a map that names another owner, or none, or this node as it was in a session that is over: after
// such a session only another map makes anybody serve the shard, and this node may be the last to see it. The error
// is a [shard.NotOwnerError] then, and generation that of the map; [NoMap] where this node leaves, so that no map makes
// it serve the shard. Where ctx ends, generation is seen; or [Coming], if by the map it is this node that is to serve
// the shard.
func (h *Shards) Await(ctx context.Context, n int, seen int64) (generation int64, err error) {
	slot := &h.slots[n]
	sub := h.cfg.Mirror.Subscribe(shardplan.ShardsChanged)
	defer sub.Close()
	for {
		awaited := slot.await()
		if awaited == nil || slot.confirm(ctx) {
			return 0, nil
		}
		h.mu.Lock()
		leaving, changed, over, lost := h.leaving, h.none, h.over, h.lost
		h.mu.Unlock()
		// In this order: a map that comes in between is seen at the next look.
		generation := h.Generation()
		owner, _, _ := h.OwnerOf(n)
		elsewhere := owner.Address != h.cfg.Address || lost != sharding.Owner{} && owner == lost
		switch {
		case elsewhere && generation != seen:
			return generation, h.refusal(n)
		case !leaving:
			changed = h.left
		case slot.free(): // nobody else may be there to make another map
			return NoMap, h.refusal(n)
		}
		select {
		case <-changed:
		case <-awaited:
			return 0, nil
		case <-sub.C:
		case <-over:
		case <-ctx.Done():
			if !elsewhere {
				seen = Coming
			}
			return seen, context.Cause(ctx)
		case <-h.patience.Done():
			return NoMap, h.refusal(n)
		}
	}
}

// NoMap is a generation that no map has: later than all. Coming is one that is earlier than all.
const NoMap, Coming = math.MaxInt64, -1

// History counts how often this node has found etcd restored from a backup, or replaced: generations of maps of before
// say nothing then.
func (h *Shards) History() int {
	if s := h.cfg.Mirror.Snapshot(); s != nil {
		return s.History
	}
	return 0
}

// Generation is the version of the shard map as far as this node knows, 0 without one.
func (h *Shards) Generation() int64 {
	if m := h.cfg.Mirror.Snapshot().Map(); m != nil {
		return m.Generation()
	}
	return 0
}
