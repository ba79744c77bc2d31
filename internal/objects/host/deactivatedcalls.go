package host

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// deactivatedMark in a chain marks a call that Deactivated makes, or that such a call waits for. No turn has that
// number.
//
// The shard of an object that is being deactivated may be about to move, and other nodes may wait for that. So
// such a call must not wait for anything that may in turn wait for it: another object's deactivation, or
// another shard's move.
const deactivatedMark = 0

// AwaitedByDeactivated reports whether a Deactivated waits for a call with that chain.
func AwaitedByDeactivated(chain []uint64) bool { return slices.Contains(chain, deactivatedMark) }

// deactivatedCallWait limits the time for which a call of Deactivated waits for a busy object. That object may itself
// be waiting for the object that is being deactivated.
const deactivatedCallWait = 500 * time.Millisecond

// waitsForLeave reports whether a turn that could not begin would wait for the end of an activation or for the
// object's shard. The caller holds the shard's lock.
func (o *object) waitsForLeave(t *turn) bool {
	return o.phase == phaseDeactivating || o.dropReason != "" || !o.home.mayEnter(t.chain)
}

func errLeaving(o *object) error {
	return hosted.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: "+o.displayName()+
		": it is being deactivated, or its shard is on its way: a call by Deactivated does not wait for that")
}

func errBusy(o *object) error {
	return hosted.Error(codes.Unavailable, objects.ReasonNotStarted,
		"objects: "+o.displayName()+": it has been busy for "+
			deactivatedCallWait.String()+": a call by Deactivated does not wait for it any longer")
}

// expireQueued refuses the calls of Deactivated in an object's queue once they have waited for deactivatedCallWait.
// The caller holds the lock.
func (s *shard) expireQueued(id objectID) {
	time.AfterFunc(deactivatedCallWait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		o := s.objects[id]
		if o == nil {
			return
		}
		for t := o.turns.first; t != nil; {
			next := t.next
			if AwaitedByDeactivated(t.chain) && time.Since(t.since) >= deactivatedCallWait {
				o.refuseTurn(t, errBusy(o))
			}
			t = next
		}
		o.forgetIfEmpty()
	})
}
