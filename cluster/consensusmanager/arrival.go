package consensusmanager

import (
	"time"

	"github.com/goverse/goverse/internal/sharding"
)

// arrival is when this node first saw that a move gives it a shard. A move is timed once:
// who acquires the shard again, after a suspension, does so for another reason.
type arrival struct {
	epoch int64     // that the move gives, so that one move is not taken for another
	since time.Time // zero: it has been timed
}

// announced are the map, and whose moves were looked for in it.
type announced struct {
	in  *sharding.Map
	own sharding.Owner
}

// announce remembers which shards the moves of a new map bring here, and since when. Only
// the goroutine that looks calls it.
func (h *Shards) announce(m *sharding.Map, own sharding.Owner) {
	seen := announced{m, own}
	if m == nil || own == (sharding.Owner{}) || seen == h.announced || m.Shards() != h.cfg.Shards {
		return
	}
	h.announced = seen
	now := time.Now()
	for move := range m.Moves() {
		if owner, ok := m.Owner(move.Shard); ok && owner == own {
			h.slots[move.Shard].announce(m.Epoch(move.Shard), now)
		}
	}
}

// arrived times the move that brought a shard here, if it was one.
func (h *Shards) arrived(slot *slot, epoch int64) {
	if since := slot.arrived(epoch); !since.IsZero() {
		h.pauses.observe(time.Since(since))
	}
}

func (s *slot) announce(epoch int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arrival.epoch != epoch {
		s.arrival = arrival{epoch, now}
	}
}

// arrived is since when a move under this epoch was known, zero if there was none.
func (s *slot) arrived(epoch int64) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arrival.epoch != epoch {
		return time.Time{}
	}
	since := s.arrival.since
	s.arrival.since = time.Time{}
	return since
}
