package consensusmanager

import (
	"time"

	"github.com/goverse/goverse/internal/sharding"
)

// moveArrival records when this node first saw that a move assigns it the shard. A move is timed once: if the node
// acquires the shard again after a suspension, that is no move.
type moveArrival struct {
	epoch int64     // epoch of the move, which identifies it
	since time.Time // zero: already timed
}

// announcedMap identifies the last map, and the owner for which its moves were examined.
type announcedMap struct {
	in  *sharding.Map
	own sharding.Owner
}

// announceMoves records the time at which a new map moves shards to this node. Only reconcile calls it.
func (h *Shards) announceMoves(m *sharding.Map, own sharding.Owner) {
	seen := announcedMap{m, own}
	if m == nil || own == (sharding.Owner{}) || seen == h.announcedMap || m.Shards() != h.cfg.Planning.Shards {
		return
	}
	h.announcedMap = seen
	now := time.Now()
	for move := range m.Moves() {
		if owner, ok := m.Owner(move.Shard); ok && owner == own {
			h.slots[move.Shard].announceMove(m.Epoch(move.Shard), now)
		}
	}
}

// recordArrival records the duration of the move that brought a shard here, if there was one.
func (h *Shards) recordArrival(slot *shardSlot, epoch int64) {
	if since := slot.takeArrival(epoch); !since.IsZero() {
		h.pauses.Observe(time.Since(since))
	}
}

func (s *shardSlot) announceMove(epoch int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arrival.epoch != epoch {
		s.arrival = moveArrival{epoch, now}
	}
}

// takeArrival returns the time since which a move under this epoch was known, or zero if there was none.
func (s *shardSlot) takeArrival(epoch int64) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arrival.epoch != epoch {
		return time.Time{}
	}
	since := s.arrival.since
	s.arrival.since = time.Time{}
	return since
}
