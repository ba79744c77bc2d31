package host

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// shard holds the objects of one shard on this node, and admits their turns.
type shard struct {
	host   *Host
	number int

	mu       sync.Mutex
	objects  map[objectID]*object // nil if there are none
	live     int                  // the number of objects that are not empty
	running  int                  // the number of running turns
	begun    int64                // the number of turns that have begun since the node's start
	ids      turnIDs
	leaving  bool // the shard leaves, and no turn has entered since
	awaiting bool // a goroutine waits for the shard
	// generation of a map that assigns the shard elsewhere, while awaiting; otherwise 0
	elsewhereGeneration int64
}

// getObject returns the object of a key, and creates it if necessary. The caller holds the lock.
func (s *shard) getObject(id objectID) *object {
	if o := s.objects[id]; o != nil {
		return o
	}
	o := &object{service: id.service, home: s, key: id.key}
	o.Object = hosted.NewObject((*activation)(o))
	if s.objects == nil {
		s.objects = map[objectID]*object{}
	}
	s.objects[id] = o
	return o
}

// removeObject removes an object from the table. The caller holds the lock.
func (s *shard) removeObject(o *object) {
	o.phase = phaseGone
	delete(s.objects, objectID{o.service, o.key})
	if len(s.objects) == 0 {
		s.objects = nil // because maps do not shrink
	}
}

// enterShard admits a turn with that chain to the shard. The caller holds the lock, and calls exitShard when the turn
// has ended.
func (s *shard) enterShard(chain []uint64) (epoch int64, ok bool) {
	if epoch, ok = s.host.cfg.Shards.Enter(s.number); ok {
		s.leaving = false
		return epoch, true
	}
	if s.ids.hasExposed(chain) {
		return s.host.cfg.Shards.Reenter(s.number)
	}
	return 0, false
}

// exitShard ends what enterShard has admitted.
func (s *shard) exitShard() { s.host.cfg.Shards.Exit(s.number) }

// mayEnter reports whether enterShard would admit a turn with that chain. The caller holds the lock.
func (s *shard) mayEnter(chain []uint64) bool {
	_, ok := s.enterShard(chain)
	if ok {
		s.exitShard()
	}
	return ok
}

// mayReenter reports whether a turn with that chain may enter the shard although it leaves. The caller holds the lock.
func (s *shard) mayReenter(chain []uint64) bool {
	if !s.ids.hasExposed(chain) {
		return false
	}
	_, ok := s.host.cfg.Shards.Reenter(s.number)
	if ok {
		s.exitShard()
	}
	return ok
}

// mustRunHere implements Host.MustRunHere.
func (s *shard) mustRunHere(chain []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayReenter(chain) || AwaitedByDeactivated(chain) && s.ids.hasExposed(chain)
}

// markLeaving implements Host.Leaving.
func (s *shard) markLeaving() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	for _, o := range s.objects {
		if o.turns.first != nil {
			s.awaitServed()
			return
		}
	}
}

// maxLeavers limits the objects of one shard that are deactivated at a time.
const maxLeavers = 32

// leaveShard implements Host.Leave.
func (s *shard) leaveShard(ctx context.Context) {
	all := s.retireObjects()
	if len(all) == 0 {
		return
	}
	reason := s.leaveReason(all[0].epoch)
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxLeavers)
	for _, o := range all {
		if !o.hasDeactivated() {
			o.finishDeactivation(ctx, reason)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			o.finishDeactivation(ctx, reason)
		})
	}
}

// retireObjects retires all active objects and returns them. The others had entered the shard, so they have ended.
func (s *shard) retireObjects() (all []*object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if o.phase == phaseActive {
			o.retireActivation()
			all = append(all, o)
		}
	}
	return all
}

// leaveReason returns the reason why a shard held under that epoch leaves.
func (s *shard) leaveReason(epoch int64) objects.Reason {
	switch {
	case !s.host.cfg.Shards.Holds(s.number, epoch): // another node may have it, or have had it
		return objects.Lost
	case s.host.stopping.Load():
		return objects.Stopping
	}
	return objects.Moved
}

// turnIDs numbers the turns of a shard and recognises the turns that calls carry in their chains. Its owner holds a
// lock.
type turnIDs struct {
	last    uint64              // random at first, so no two shards share ids
	exposed map[uint64]struct{} // the ids of running turns that calls may carry; nil if there are none
}

// nextID returns the id of a new turn. It is never 0 and is unique.
func (i *turnIDs) nextID() uint64 {
	if i.last++; i.last == 0 {
		i.last++
	}
	return i.last
}

// exposeID records that calls may carry the id of a turn that waits for them, until concealID.
func (i *turnIDs) exposeID(id uint64) {
	if i.exposed == nil {
		i.exposed = map[uint64]struct{}{}
	}
	i.exposed[id] = struct{}{}
}

// concealID undoes exposeID.
func (i *turnIDs) concealID(id uint64) {
	delete(i.exposed, id)
	if len(i.exposed) == 0 {
		i.exposed = nil // because maps do not shrink
	}
}

// hasExposed reports whether a turn in the chain runs in this shard on this node. An id that was never sent to a caller
// is guessed with a probability of 2^-64.
func (i *turnIDs) hasExposed(chain []uint64) bool {
	if i.exposed == nil {
		return false
	}
	for _, id := range chain {
		if _, ok := i.exposed[id]; ok {
			return true
		}
	}
	return false
}
