package host

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/mutant"
)

// shard is what is in one shard on this node.
type shard struct {
	number int

	mu         sync.Mutex
	objects    map[id]*object // nil: none
	live       int            // of those, how many are not empty
	running    int            // turns
	turns      uint64         // the id of the last turn; begins anywhere, so that no two shards have the same
	leaving    bool           // it is to be handed over: nobody has entered since
	awaiting   bool           // a goroutine waits for the shard
	generation int64          // of the newest map by which a call that waits came here
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

// forget takes an object out of the table. The lock is held.
func (s *shard) forget(o *object) {
	o.phase = gone
	delete(s.objects, id{o.service, o.key})
	if len(s.objects) == 0 {
		s.objects = nil // maps do not shrink
	}
}

// await sees to it that the calls that wait are resolved when the shard is served, or belongs to another
// node. The lock of the shard is held.
func (h *Host) await(s *shard) {
	if s.awaiting {
		return
	}
	s.awaiting = h.spawn(func() {
		s.mu.Lock()
		generation := s.generation
		s.mu.Unlock()
		err := h.cfg.Shards.Await(h.ctx, s.number, generation)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.awaiting = false
		for _, o := range s.objects {
			if err == nil {
				h.advance(o)
			} else if o.first != nil {
				h.refuse(o, errMoved)
			}
		}
		if err != nil {
			s.generation = 0
		}
	})
	if !s.awaiting { // the host is closed
		for _, o := range s.objects {
			h.refuse(o, errMoved)
		}
	}
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

// enterShard counts a turn into the shard. The lock is held.
func (h *Host) enterShard(s *shard) (epoch int64, ok bool) {
	if epoch, ok = h.cfg.Shards.Enter(s.number); ok {
		s.leaving = false
	}
	return epoch, ok
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
	if mutant.Is(mutant.ActivationStays) {
		return
	}
	s := &h.shards[n]
	reason := h.leaveReason(n)
	s.mu.Lock()
	var all []*object
	for _, o := range s.objects {
		if o.phase == active { // others have entered the shard, so they have ended
			h.retire(o)
			all = append(all, o)
		}
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	end := func(o *object) {
		h.notify(ctx, o, reason)
		s.mu.Lock()
		defer s.mu.Unlock()
		h.bury(o, reason)
	}
	turn := make(chan struct{}, leavers)
	for _, o := range all {
		if !o.notified() {
			end(o)
			continue
		}
		turn <- struct{}{}
		wg.Go(func() {
			end(o)
			<-turn
		})
	}
}

// leaveReason is why a shard leaves.
func (h *Host) leaveReason(n int) objects.Reason {
	switch {
	case lost(h.cfg.Shards.Drained(n)):
		return objects.Lost
	case h.stopping.Load():
		return objects.Stopping
	}
	return objects.Moved
}
