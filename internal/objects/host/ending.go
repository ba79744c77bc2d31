package host

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
)

// endingMark stands in a chain for a call of Deactivated, or one that such a call waits for. No turn has that number.
//
// The shard of an object that is deactivated may be on its way, and others wait for that. Such a call must not wait for
// what may wait for it in turn: for another object that is deactivated, or another shard on its way.
const endingMark = 0

// Ending reports whether a Deactivated waits for a call with that chain.
func Ending(chain []uint64) bool { return slices.Contains(chain, endingMark) }

// endingFor is how long a call of Deactivated waits for its turn at an object that is busy: that may be with a call to
// the very object that is deactivated.
const endingFor = 500 * time.Millisecond

// onItsWay reports whether a call, which was not granted a turn, would wait for the end of an activation or for its
// shard. The lock of the shard is held.
func (h *Host) onItsWay(o *object, w *waiter) bool {
	if o.phase == deactivating || o.drop != "" {
		return true
	}
	_, ok := h.enterShard(o.home, w.chain)
	if ok {
		h.cfg.Shards.Exit(o.home.number)
	}
	return !ok
}

func errOnItsWay(o *object) error {
	return objects.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: "+o.name()+
		": it is being deactivated, or its shard is on its way: a call by Deactivated does not wait for that")
}

func errBusy(o *object) error {
	return objects.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: "+o.name()+": it has been busy for "+
		endingFor.String()+": a call by Deactivated does not wait for it any longer")
}

// expireQueued has a call wait in its queue for endingFor at most; its waiter is not used again. The lock of the shard
// is held.
func (h *Host) expireQueued(s *shard, w *waiter) {
	time.AfterFunc(endingFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !w.queued {
			return
		}
		o := w.object
		err := errBusy(o)
		h.pull(w)
		w.method.refuse(err)
		w.owner.resolve(err)
		h.tidy(o)
	})
}
