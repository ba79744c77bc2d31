package consensusmanager

import "context"

// Residents live in shards from one call to the next and must leave before a shard is handed over. Objects are
// the only ones.
type Residents interface {
	// Leaving reports that the shard admits no further calls. It must not block.
	Leaving(shard int)
	// Occupied reports whether residents remain in a shard that admits no more calls.
	Occupied(shard int) bool
	// Leave makes the residents leave the shard, and returns when none is left. All calls in the shard have
	// ended. ctx ends after the drain time-out.
	Leave(ctx context.Context, shard int)
}

// removeResidents makes the residents of a shard leave.
func (h *Shards) removeResidents(n int) {
	if h.residents == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.waitCtx, h.cfg.DrainTimeout)
	defer cancel()
	h.residents.Leave(ctx, n)
}

// hasResidents reports whether residents must leave a shard.
func (h *Shards) hasResidents(n int) bool { return h.residents != nil && h.residents.Occupied(n) }
