package host

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/objects"
)

// shard is what is in one shard on this node.
type shard struct {
	number int

	mu        sync.Mutex
	objects   map[id]*object      // nil: none
	live      int                 // of those, how many are not empty
	running   int                 // turns
	before    uint64              // the ids of turns follow it; it is anywhere, so that no two shards have the same
	turns     uint64              // the id of the last turn
	told      map[uint64]struct{} // the turns that run and may have calls that say so; nil: none
	leaving   bool                // it is to be handed over: nobody has entered since
	awaiting  bool                // a goroutine waits for the shard
	elsewhere int64               // while it does: the map by which the shard is not this node's; 0: it may be
}

// get is the object of a key, made if there is none. The lock is held.
func (s *shard) get(h *Host, service *service, key string) *object {
	if o := s.objects[id{service, key}]; o != nil {
		return o
	}
	o := &object{host: h, service: service, home: s, key: key}
	o.Object = objects.Make(o)
	if s.objects == nil {
		s.objects = map[id]*object{}
	}
	s.objects[id{service, key}] = o
	return o
}

// newTurn is the id of a turn: never 0, and no other's. The lock is held.
func (s *shard) newTurn() uint64 {
	if s.turns++; s.turns == 0 {
		s.turns++
	}
	return s.turns
}

// tell notes that calls may say that a turn waits for them, until untell. The lock is held.
func (s *shard) tell(turn uint64) {
	if s.told == nil {
		s.told = map[uint64]struct{}{}
	}
	s.told[turn] = struct{}{}
}

// untell follows tell. The lock is held.
func (s *shard) untell(turn uint64) {
	delete(s.told, turn)
	if len(s.told) == 0 {
		s.told = nil // maps do not shrink
	}
}

// issued reports whether one of the turns that wait for a call runs in this shard, on this node. A number that nobody
// was told is guessed with a chance of one in 2^64. The lock is held.
func (s *shard) issued(chain []uint64) bool {
	if s.told == nil {
		return false
	}
	for _, turn := range chain {
		if _, ok := s.told[turn]; ok {
			return true
		}
	}
	return false
}

// forget takes an object out of the table. The lock is held.
func (s *shard) forget(o *object) {
	o.phase = gone
	delete(s.objects, id{o.service, o.key})
	if len(s.objects) == 0 {
		s.objects = nil // maps do not shrink
	}
}

// Inside reports whether a call is waited for by a turn in its own shard, which leaves this node, and does not before
// that turn has ended: it is to be made here, though the map names another owner. What Deactivated calls in its own
// shard is refused here.
func (h *Host) Inside(n int, chain []uint64) bool {
	if len(chain) == 0 {
		return false
	}
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.inside(s, chain) || Ending(chain) && s.issued(chain)
}

// inside reports whether a call may enter a shard that leaves. The lock of the shard is held.
func (h *Host) inside(s *shard, chain []uint64) bool {
	if !s.issued(chain) {
		return false
	}
	_, ok := h.cfg.Shards.Reenter(s.number)
	if ok {
		h.cfg.Shards.Exit(s.number)
	}
	return ok
}

// Leaving implements consensus.Residents: calls that wait are not to wait for those that run.
func (h *Host) Leaving(n int) {
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	for _, o := range s.objects {
		if o.first != nil {
			h.await(s)
			return
		}
	}
}

// enterShard counts a turn into the shard, for which the chain waits. The lock is held.
func (h *Host) enterShard(s *shard, chain []uint64) (epoch int64, ok bool) {
	if epoch, ok = h.cfg.Shards.Enter(s.number); ok {
		s.leaving = false
		return epoch, true
	}
	if s.issued(chain) {
		return h.cfg.Shards.Reenter(s.number)
	}
	return 0, false
}

// Occupied implements consensus.Residents.
func (h *Host) Occupied(n int) bool {
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live > 0
}

// leavers is how many objects of a shard are deactivated at a time.
const leavers = 32

// Leave implements consensus.Residents: it deactivates all that is in a shard.
func (h *Host) Leave(ctx context.Context, n int) {
	s := &h.shards[n]
	s.mu.Lock()
	var all []*object
	for _, o := range s.objects {
		if o.phase == active { // others have entered the shard, so they have ended
			h.retire(o)
			all = append(all, o)
		}
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	reason := h.leaveReason(n, all[0].epoch)
	var wg sync.WaitGroup
	defer wg.Wait()
	turn := make(chan struct{}, leavers)
	for _, o := range all {
		if !o.notified() {
			h.leave(ctx, o, reason)
			continue
		}
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			h.leave(ctx, o, reason)
		})
	}
}

// leaveReason is why a shard leaves that was had under that epoch.
func (h *Host) leaveReason(n int, epoch int64) objects.Reason {
	switch {
	case !h.cfg.Shards.Holds(n, epoch): // others may have it, or have had it
		return objects.Lost
	case h.stopping.Load():
		return objects.Stopping
	}
	return objects.Moved
}
