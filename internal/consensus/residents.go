package consensus

import (
	"context"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/shardplan"
	"github.com/goverse/goverse/internal/wait"
)

// Residents are what lives in shards from one call to the next, and has to leave before a shard is
// handed over: objects.
type Residents interface {
	// Leaving: no further call is let into the shard. It must not block.
	Leaving(shard int)
	// Occupied reports whether anything lives in a shard that no call is let into any more.
	Occupied(shard int) bool
	// Leave returns when nothing lives in the shard any more. What ran in it has ended; ctx ends after
	// the drain time-out.
	Leave(ctx context.Context, shard int)
}

// SetResidents must be called before Run.
func (h *Shards) SetResidents(r Residents) { h.residents = r }

// Enter counts a call into a shard if this node serves it at this instant; Exit counts it out. The shard is not handed
// over in between, unless the session is lost.
func (h *Shards) Enter(n int) (epoch int64, ok bool) { return h.slots[n].admit() }

// Reenter is Enter for a call that something waits for which runs in the shard: it is let in also while that is waited
// for before the shard is handed over.
func (h *Shards) Reenter(n int) (epoch int64, ok bool) {
	s := &h.slots[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != serving && s.phase != releasing || s.running == 0 || !s.period.Valid() {
		return 0, false
	}
	s.running++
	return s.epoch, true
}

// Exit follows each Enter and Reenter that was ok.
func (h *Shards) Exit(n int) { h.slots[n].leave() }

// Holds reports whether this node has the shard under that epoch at this instant: it serves it, or lets what runs in it
// end. Nobody else has it then.
func (h *Shards) Holds(n int, epoch int64) bool {
	s := &h.slots[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.phase == serving || s.phase == releasing) && s.epoch == epoch && s.period.Valid()
}

// Drained is the context of what runs in a shard until it has to be cut off: it ends with [ErrNotOwner] when the
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
// another node owns it, or nobody, or this node leaves, which are a [shard.NotOwnerError]; or ctx ends.
func (h *Shards) Await(ctx context.Context, n int, generation int64) error {
	slot := &h.slots[n]
	sub := h.cfg.Mirror.Subscribe(shardplan.ShardsChanged)
	defer sub.Close()
	for {
		awaited := slot.await()
		if awaited == nil || slot.confirm(ctx) {
			return nil
		}
		if owner, _, _ := h.OwnerOf(n); owner.Address != h.cfg.Address && h.Generation() >= generation {
			return h.refusal(n)
		}
		h.mu.Lock()
		leaving, changed := h.leaving, h.none
		h.mu.Unlock()
		switch {
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
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.patience.Done():
			return h.refusal(n)
		}
	}
}

// Generation is the version of the shard map as far as this node knows, 0 without one.
func (h *Shards) Generation() int64 {
	if snap := h.cfg.Mirror.Snapshot(); snap != nil && snap.ShardMap != nil && snap.ShardMap.Map != nil {
		return snap.ShardMap.Generation()
	}
	return 0
}

// AwaitGeneration blocks until the map has that generation or a later one, or ctx ends.
func (h *Shards) AwaitGeneration(ctx context.Context, generation int64) error {
	sub := h.cfg.Mirror.Subscribe(shardplan.ShardsChanged)
	defer sub.Close()
	return wait.Until(ctx, sub.C, func() bool { return h.Generation() >= generation })
}

// vacate lets the residents of a shard leave.
func (h *Shards) vacate(n int) {
	if h.residents == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.patience, h.cfg.DrainTimeout)
	defer cancel()
	h.residents.Leave(ctx, n)
}

// occupied reports whether residents have to leave a shard.
func (h *Shards) occupied(n int) bool { return h.residents != nil && h.residents.Occupied(n) }

// admit is enter without the owner's context.
func (s *slot) admit() (epoch int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != serving || !s.period.Valid() {
		return 0, false
	}
	s.running++
	return s.epoch, true
}

// await returns what is closed when the shard is served the next time; nil if it is served.
func (s *slot) await() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == serving && s.period.Valid() {
		return nil
	}
	if s.awaited == nil {
		s.awaited = make(chan struct{})
	}
	return s.awaited
}

// free reports whether the node has nothing of the shard.
func (s *slot) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == idle
}

// staying ends as soon as the shard is not served any more. The lock is held.
func (s *slot) staying() context.Context {
	if s.phase == idle {
		return released
	}
	if s.stay == nil {
		s.stay, s.endStay = context.WithCancelCause(s.context())
		if s.phase != serving {
			s.endStay(shard.ErrNotOwner)
		}
	}
	return s.stay
}
