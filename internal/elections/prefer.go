package elections

import (
	"time"

	"github.com/goverse/goverse/internal/leasequeue/order"
)

// yield has the place given up where others are to pass. The lock is held.
func (e *Election) yield() {
	if e.place == nil || e.giveUp != nil {
		return
	}
	giveWay, again := e.place.Priority != e.priority, time.Duration(0)
	if !giveWay {
		e.yielding, giveWay, again = e.yielding.Look(e.follower.Queue(), e.place.Key(), e.place.Token(), e.asked(),
			e.all.cfg.PreferAfter, time.Now())
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

// asked are the requests about this election, the first made first.
func (e *Election) asked() []order.Request {
	entries := e.follower.Requests()
	if len(entries) == 0 {
		return nil
	}
	out := make([]order.Request, len(entries))
	for i, x := range entries {
		out[i] = order.ParseRequest(x.Value)
	}
	return out
}
