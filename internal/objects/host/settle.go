package host

import (
	"context"
	"math"
	"time"
)

// A call that came by a newer map than this node has may wait for that map. What its caller says of the cluster is a
// hint about that one call: it counts for hintFor, and until the maps have another history. Maps take milliseconds from
// one node to another; a caller whose node is late asks again.
const (
	hintFor  = time.Second
	hintStep = hintFor / 4 // how often it is looked at which hints have had their time
)

// await sees to it that the calls that wait are resolved when the shard is served, or belongs to another
// node. The lock of the shard is held.
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

// settle waits for what becomes of a shard that is not served. Where it is another node's, it stays for the calls that
// came by a newer map; where that map has come, for however long the other node takes to release the shard.
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

// settled resolves the calls of a shard that is served, if err is nil, or is not this node's by the map of a
// generation; below 0: by none, it is to serve the shard. It reports whether none waits any longer for what becomes of
// the shard.
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

// moved refuses those that wait for an object whose shard is not this node's by the map of a generation, but not those
// that the shard is waited for, nor, since late, those that came by a newer map. It reports whether none of these is
// left. The lock of the shard is held.
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
