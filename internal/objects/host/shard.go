package host

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/objects"
)

// shard is what is in one shard on this node.
type shard struct {
	number int

	mu         sync.Mutex
	objects    map[id]*object // nil: none
	live       int            // of those, how many are not empty
	running    int            // turns
	before     uint64         // the ids of turns follow it; it is anywhere, so that no two shards have the same
	turns      uint64         // the id of the last turn
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

// issued reports whether one of the turns that wait for a call is of this shard, on this node. The lock is held.
func (s *shard) issued(chain []uint64) bool {
	for _, turn := range chain {
		if turn-s.before-1 < s.turns-s.before { // the ids may have passed 0
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

// await sees to it that the calls that wait are resolved when the shard is served, or belongs to another
// node. The lock of the shard is held.
func (h *Host) await(s *shard) {
	if s.awaiting {
		return
	}
	s.awaiting = h.spawn(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		var err error
		for asked := int64(-1); asked < s.generation; { // also by a newer map, of calls that came meanwhile
			asked = s.generation
			s.mu.Unlock()
			err = h.cfg.Shards.Await(h.ctx, s.number, asked)
			s.mu.Lock()
			if err == nil || h.ctx.Err() != nil {
				break
			}
		}
		s.awaiting = false
		for _, o := range s.objects {
			if err == nil {
				h.advance(o)
			} else if o.first != nil {
				h.moved(o)
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

// moved refuses those that wait for an object whose shard is not this node's any more, but not those that the shard is
// waited for. The lock of the shard is held.
func (h *Host) moved(o *object) {
	s := o.home
	for w := o.first; w != nil; {
		next := w.next
		if !h.inside(s, w.chain) {
			h.pull(w)
			w.owner.resolve(errMoved)
		}
		w = next
	}
	if o.first == nil {
		h.tidy(o)
	} else {
		h.advance(o)
	}
}

// Inside reports whether a call is waited for by a turn in its own shard, which leaves this node, and does not before
// that turn has ended: it is to be made here, though the map names another owner.
func (h *Host) Inside(n int, chain []uint64) bool {
	if len(chain) == 0 {
		return false
	}
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.inside(s, chain)
}

// inside is Inside. The lock of the shard is held.
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
