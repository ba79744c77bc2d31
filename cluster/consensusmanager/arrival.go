package consensusmanager

import (
	"time"

	"github.com/goverse/goverse/internal/sharding"
)

// arrival records when this node first saw that a move assigns it the shard. A move is timed once: if the node
// acquires the shard again after a suspension, that is no move.
type arrival struct {
	epoch int64     // epoch of the move, which identifies it
	since time.Time // zero: already timed
}

// announced identifies the last map, and the owner for which its moves were examined.
type announced struct {
	in  *sharding.Map
	own sharding.Owner
}

// announce records the time at which a new map moves shards to this node. Only look calls it.
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

// arrived records the duration of the move that brought a shard here, if there was one.
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

// arrived returns the time since which a move under this epoch was known, or zero if there was none.
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
