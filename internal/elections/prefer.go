package elections

import (
	"time"

	"github.com/goverse/goverse/internal/leasequeue/order"
)

// Priority has this node stand with that priority; 0 is what the others have. A candidate of a
// higher priority than the leader's is given the leadership once it has stood for PreferAfter:
// those who wait before it go to the tail, then the leader gives way, as by Resign. Equal ones
// never take it from each other; so while a new priority is rolled out over all nodes it is
// handed over once at most. The first come is not the first served any more in this election,
// and in no other.
//
// Who asks for the election again with another priority has this node queue anew, and give way
// if it leads; who leaves Priority out leaves it as it is.
func Priority(n int) Option { return func(o *options) { o.priority = &n } }

// yield has the place given up where others are to pass. The lock is held.
func (e *Election) yield() {
	if e.place == nil || e.giveUp != nil {
		return
	}
	giveWay, again := e.place.Priority != e.priority, time.Duration(0)
	if !giveWay {
		e.yielding, giveWay, again = e.yielding.Look(e.follower.Queue(), e.place.Key(), e.place.Token(), e.asked(), e.all.cfg.PreferAfter, time.Now())
	}
	if giveWay {
		e.giveUp = ErrGaveWay
	}
	switch {
	case e.later == nil && again > 0:
		e.later = time.AfterFunc(again, e.touch)
	case again > 0:
		e.later.Reset(again)
	case e.later != nil:
		e.later.Stop()
	}
}

// asked are the wishes about this election, the first made first.
func (e *Election) asked() []order.Wish {
	entries := e.follower.Wishes()
	if len(entries) == 0 {
		return nil
	}
	out := make([]order.Wish, len(entries))
	for i, x := range entries {
		out[i] = order.ParseWish(x.Value)
	}
	return out
}
