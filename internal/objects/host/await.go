package host

import (
	"context"
	"math"
	"time"
)

// A call that came by a newer map than this node has may wait for that map. The generation that its caller
// names is only a hint about that one call. It is valid for hintLifetime, and only until the maps have another
// history. Maps reach all nodes within milliseconds of one another. A caller tries again if its own node has
// the map later than that.
const (
	hintLifetime   = time.Second
	hintCheckEvery = hintLifetime / 4 // the interval at which hints are checked for expiry
)

// awaitServed makes sure that the waiting calls are resolved when the shard is served or belongs to another node. The
// caller holds the lock.
func (s *shard) awaitServed() {
	if s.awaiting {
		return
	}
	if s.awaiting = s.host.workers.run(s.resolveWhenServed); s.awaiting {
		return
	}
	s.refuseAll() // the host is closed
}

// refuseAll refuses all calls that wait for objects of the shard. The caller holds the lock.
func (s *shard) refuseAll() {
	for _, o := range s.objects {
		o.refuseWaiting(errMoved)
	}
}

// resolveWhenServed waits until the shard is served or assigned to another node, and resolves its calls. If the shard
// is another node's, it keeps waiting for calls that came by a newer map. If the newer map assigns the shard to this
// node, it waits without limit until the former owner has released the shard.
func (s *shard) resolveWhenServed() {
	h := s.host
	history, seen := h.cfg.Shards.History(), int64(-1)
	for {
		ctx, cancel := h.ctx, context.CancelFunc(func() {})
		if seen >= 0 {
			ctx, cancel = context.WithTimeout(h.ctx, hintCheckEvery)
		}
		generation, err := h.cfg.Shards.Await(ctx, s.number, seen)
		cancel()
		if h.cfg.Shards.History() != history || h.ctx.Err() != nil {
			generation = math.MaxInt64
		}
		if s.resolveCalls(generation, err) {
			return
		}
		seen = generation
	}
}

// resolveCalls resolves the calls of the shard. A nil err means that the shard is served. Otherwise the map of the
// given generation does not assign the shard to this node; a negative generation means that the map assigns it
// to this node, which does not serve it yet. It reports whether no call waits any longer for the shard.
func (s *shard) resolveCalls(generation int64, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.awaiting, s.elsewhereGeneration = false, 0
		for _, o := range s.objects {
			o.advanceTurns()
		}
		return true
	}
	if generation < 0 {
		s.elsewhereGeneration = 0
		return false
	}
	late := time.Now().Add(-hintLifetime)
	over := true
	for _, o := range s.objects {
		if o.turns.first != nil {
			over = o.refuseMoved(generation, late) && over
		}
	}
	s.awaiting, s.elsewhereGeneration = !over, generation
	if over {
		s.elsewhereGeneration = 0
	}
	for _, o := range s.objects {
		if o.turns.first != nil {
			o.advanceTurns()
		}
	}
	return over
}

// refuseMoved refuses the calls that wait for an object if the map of that generation assigns its shard elsewhere. It
// keeps calls that may enter the leaving shard, and calls that came by a newer map and were queued after late.
// It reports whether it kept none of the latter. The caller holds the shard's lock.
func (o *object) refuseMoved(generation int64, late time.Time) (over bool) {
	over = true
	for t := o.turns.first; t != nil; {
		next := t.next
		switch {
		case o.home.mayReenter(t.chain):
		case t.generation > generation && t.since.After(late):
			over = false
		default:
			o.refuseTurn(t, errMoved)
		}
		t = next
	}
	o.forgetIfEmpty()
	return over
}
