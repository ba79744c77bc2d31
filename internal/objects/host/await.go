package host

import (
	"context"
	"math"
	"time"
)

// A call that came by a newer map than this node has may wait for that map. The generation that its caller
// names is only a hint about that one call. It is valid for hintFor, and only until the maps have another
// history. Maps reach all nodes within milliseconds of one another. A caller tries again if its own node has
// the map later than that.
const (
	hintFor  = time.Second
	hintStep = hintFor / 4 // the interval at which hints are checked for expiry
)

// await makes sure that the waiting calls are resolved when the shard is served or belongs to another node. The
// caller holds the shard's lock.
func (h *Host) await(s *shard) {
	if s.awaiting {
		return
	}
	if s.awaiting = h.spawn(func() { h.settle(s) }); s.awaiting {
		return
	}
	for _, o := range s.objects { // the host is closed
		h.refuse(o, errMoved)
	}
}

// settle waits until a shard is served or assigned to another node, and resolves its calls. If the shard is
// another node's, settle keeps waiting for calls that came by a newer map. If the newer map assigns the shard
// to this node, settle waits without limit until the former owner has released it.
func (h *Host) settle(s *shard) {
	history, seen := h.cfg.Shards.History(), int64(-1)
	for {
		ctx, cancel := h.ctx, context.CancelFunc(func() {})
		if seen >= 0 {
			ctx, cancel = context.WithTimeout(h.ctx, hintStep)
		}
		generation, err := h.cfg.Shards.Await(ctx, s.number, seen)
		cancel()
		if h.cfg.Shards.History() != history || h.ctx.Err() != nil {
			generation = math.MaxInt64
		}
		if h.settled(s, generation, err) {
			return
		}
		seen = generation
	}
}

// settled resolves the calls of a shard. A nil err means that the shard is served. Otherwise the map of the
// given generation does not assign the shard to this node; a negative generation means that the map assigns it
// to this node, which does not serve it yet. settled reports whether no call waits any longer for the shard.
func (h *Host) settled(s *shard, generation int64, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.awaiting, s.elsewhere = false, 0
		for _, o := range s.objects {
			h.advance(o)
		}
		return true
	}
	if generation < 0 {
		s.elsewhere = 0
		return false
	}
	late := time.Now().Add(-hintFor)
	over := true
	for _, o := range s.objects {
		if o.first != nil {
			over = h.moved(o, generation, late) && over
		}
	}
	s.awaiting, s.elsewhere = !over, generation
	if over {
		s.elsewhere = 0
	}
	for _, o := range s.objects {
		if o.first != nil {
			h.advance(o)
		}
	}
	return over
}

// moved refuses the calls that wait for an object if the map of that generation assigns its shard elsewhere. It
// keeps calls that may enter the leaving shard, and calls that came by a newer map and were queued after late.
// It reports whether it kept none of the latter. The caller holds the shard's lock.
func (h *Host) moved(o *object, generation int64, late time.Time) (over bool) {
	over = true
	for w := o.first; w != nil; {
		next := w.next
		switch {
		case h.inside(o.home, w.chain):
		case w.generation > generation && w.since.After(late):
			over = false
		default:
			h.pull(w)
			w.owner.resolve(errMoved)
		}
		w = next
	}
	h.tidy(o)
	return over
}
