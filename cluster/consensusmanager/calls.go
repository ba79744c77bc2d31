package consensusmanager

import (
	"context"
	"math"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
)

// Enter admits a call into a shard if this node serves it at this instant. Exit ends the call. The shard is not
// handed over in between, unless the session is lost.
func (h *Shards) Enter(n int) (epoch int64, ok bool) { return h.slots[n].admitCall() }

// Reenter is Enter for a call that another call in the shard waits for. It is also admitted while the shard
// waits for its running calls before it is handed over.
func (h *Shards) Reenter(n int) (epoch int64, ok bool) { return h.slots[n].readmitCall() }

// Exit must follow each successful Enter and Reenter.
func (h *Shards) Exit(n int) { h.slots[n].leaveCall() }

// Holds reports whether this node has the shard under that epoch at this instant: it serves it, or lets its
// running calls end. No other node has the shard then.
func (h *Shards) Holds(n int, epoch int64) bool { return h.slots[n].holdsEpoch(epoch) }

// Drained returns the context for calls in a shard that must run to their end. It ends with [shard.ErrNotOwner]
// when the drain time-out has passed, and at the session's deadline. Call it between Enter and Exit.
func (h *Shards) Drained(n int) context.Context {
	s := &h.slots[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownerContext()
}

// Staying is like Drained, but its context ends as soon as the shard must be handed over.
func (h *Shards) Staying(n int) context.Context {
	s := &h.slots[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stayContext()
}

// Await blocks until this node serves the shard, and then returns nil. It fails with a [shard.NotOwnerError]
// when a map of a generation other than seen assigns the shard to another owner, to none, or to this node as
// registered in a session that has ended. After such a session only a new map gives the shard an owner that
// serves it, and this node may be the last one to see it. generation is then that of the map. If this node is
// leaving, no map makes it serve the shard, and generation is [NoMap]. If ctx ends, Await returns its cause;
// generation is seen, or [Coming] if the map assigns the shard to this node.
func (h *Shards) Await(ctx context.Context, n int, seen int64) (generation int64, err error) {
	slot := &h.slots[n]
	sub := h.cfg.Mirror.Subscribe(shardplan.ShardsChanged)
	defer sub.Close()
	for {
		awaited := slot.awaitServed()
		if awaited == nil || slot.confirmPeriod(ctx) {
			return 0, nil
		}
		h.mu.Lock()
		leaving, changed, over, lost := h.leaving, h.allFree, h.sessionEnded, h.lostOwner
		h.mu.Unlock()
		// The generation before the owner: if a map arrives in between, the next iteration sees it.
		generation := h.Generation()
		owner := h.ownerOf(n)
		elsewhere := owner.Address != h.cfg.Address || lost != sharding.Owner{} && owner == lost
		switch {
		case elsewhere && generation != seen:
			return generation, h.notOwnerError(n)
		case !leaving:
			changed = h.leaveStarted
		case slot.isFree(): // there may be no node left to write another map
			return NoMap, h.notOwnerError(n)
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
		case <-h.waitCtx.Done():
			return NoMap, h.notOwnerError(n)
		}
	}
}

// NoMap is a generation later than that of any map. Coming is one earlier than that of any map.
const NoMap, Coming int64 = math.MaxInt64, -1

// History counts how often this node has seen etcd restored from a backup or replaced. Generations from before
// the last time mean nothing.
func (h *Shards) History() int {
	if s := h.cfg.Mirror.Snapshot(); s != nil {
		return s.History
	}
	return 0
}

// Generation returns the generation of the shard map as far as this node knows, or 0 without a map.
func (h *Shards) Generation() int64 {
	if m := h.cfg.Mirror.Snapshot().Map(); m != nil {
		return m.Generation()
	}
	return 0
}
