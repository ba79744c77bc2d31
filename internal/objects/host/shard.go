package host

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/objects"
)

// shard holds the objects of one shard on this node.
type shard struct {
	number int

	mu       sync.Mutex
	objects  map[objectID]*object // nil if there are none
	live     int                  // the number of objects that are not empty
	running  int                  // the number of running turns
	turns    uint64               // the id of the last turn; random at first, so no two shards share ids
	exposed  map[uint64]struct{}  // the ids of running turns that calls may carry; nil if there are none
	leaving  bool                 // the shard leaves, and no turn has entered since
	awaiting bool                 // a goroutine waits for the shard
	// generation of a map that assigns the shard elsewhere, while awaiting; otherwise 0
	elsewhereGeneration int64
}

// getObject returns the object of a key, and creates it if necessary. The caller holds the lock.
func (s *shard) getObject(h *Host, service *service, key string) *object {
	if o := s.objects[objectID{service, key}]; o != nil {
		return o
	}
	o := &object{host: h, service: service, home: s, key: key}
	o.Object = objects.Make(o)
	if s.objects == nil {
		s.objects = map[objectID]*object{}
	}
	s.objects[objectID{service, key}] = o
	return o
}

// newTurn returns the id of a new turn. It is never 0 and is unique. The caller holds the lock.
func (s *shard) newTurn() uint64 {
	if s.turns++; s.turns == 0 {
		s.turns++
	}
	return s.turns
}

// expose records that calls may carry the id of a turn that waits for them, until unexpose. The caller holds
// the lock.
func (s *shard) expose(turn uint64) {
	if s.exposed == nil {
		s.exposed = map[uint64]struct{}{}
	}
	s.exposed[turn] = struct{}{}
}

// unexpose undoes expose. The caller holds the lock.
func (s *shard) unexpose(turn uint64) {
	delete(s.exposed, turn)
	if len(s.exposed) == 0 {
		s.exposed = nil // because maps do not shrink
	}
}

// hasTurnOf reports whether one of the turns in the chain runs in this shard on this node. An id that was never
// sent to a caller is guessed with a probability of 2^-64. The caller holds the lock.
func (s *shard) hasTurnOf(chain []uint64) bool {
	if s.exposed == nil {
		return false
	}
	for _, turn := range chain {
		if _, ok := s.exposed[turn]; ok {
			return true
		}
	}
	return false
}

// removeObject removes an object from the table. The caller holds the lock.
func (s *shard) removeObject(o *object) {
	o.phase = phaseGone
	delete(s.objects, objectID{o.service, o.key})
	if len(s.objects) == 0 {
		s.objects = nil // because maps do not shrink
	}
}

// MustRunHere reports whether a call must be made on this node although the map names another owner. That is so if a
// turn in the call's own shard waits for it, because the shard does not leave this node before that turn has
// ended. It is also so for calls of Deactivated to its own shard, which this node refuses.
func (h *Host) MustRunHere(n int, chain []uint64) bool {
	if len(chain) == 0 {
		return false
	}
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.mayEnterLeaving(s, chain) || AwaitedByDeactivated(chain) && s.hasTurnOf(chain)
}

// mayEnterLeaving reports whether a call may enter a shard that leaves. The caller holds the shard's lock.
func (h *Host) mayEnterLeaving(s *shard, chain []uint64) bool {
	if !s.hasTurnOf(chain) {
		return false
	}
	_, ok := h.cfg.Shards.Reenter(s.number)
	if ok {
		h.cfg.Shards.Exit(s.number)
	}
	return ok
}

// Leaving implements consensusmanager.Residents. It makes queued calls move on without waiting for running
// ones.
func (h *Host) Leaving(n int) {
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	for _, o := range s.objects {
		if o.first != nil {
			h.awaitShard(s)
			return
		}
	}
}

// enterShard admits a turn with that chain to the shard. The caller holds the lock.
func (h *Host) enterShard(s *shard, chain []uint64) (epoch int64, ok bool) {
	if epoch, ok = h.cfg.Shards.Enter(s.number); ok {
		s.leaving = false
		return epoch, true
	}
	if s.hasTurnOf(chain) {
		return h.cfg.Shards.Reenter(s.number)
	}
	return 0, false
}

// Occupied implements consensusmanager.Residents.
func (h *Host) Occupied(n int) bool {
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live > 0
}

// maxLeavers limits the objects of one shard that are deactivated at a time.
const maxLeavers = 32

// Leave implements consensusmanager.Residents. It deactivates all objects of a shard.
func (h *Host) Leave(ctx context.Context, n int) {
	s := &h.shards[n]
	s.mu.Lock()
	var all []*object
	for _, o := range s.objects {
		if o.phase == phaseActive { // the others had entered the shard, so they have ended
			h.retireObject(o)
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
	turn := make(chan struct{}, maxLeavers)
	for _, o := range all {
		if !o.hasDeactivated() {
			h.finishDeactivation(ctx, o, reason)
			continue
		}
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			h.finishDeactivation(ctx, o, reason)
		})
	}
}

// leaveReason returns the reason why a shard held under that epoch leaves.
func (h *Host) leaveReason(n int, epoch int64) objects.Reason {
	switch {
	case !h.cfg.Shards.Holds(n, epoch): // another node may have it, or have had it
		return objects.Lost
	case h.stopping.Load():
		return objects.Stopping
	}
	return objects.Moved
}
