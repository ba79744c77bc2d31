package consensusmanager

import "context"

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
