package leasequeue

import (
	"slices"

	"github.com/goverse/goverse/internal/wait"
)

// queueOp creates or deletes the key of an entry.
type queueOp struct {
	entry   *Entry
	creates bool
}

// opCount returns the number of etcd operations that it takes.
func (o queueOp) opCount() int {
	if o.creates {
		return 2
	}
	return 1
}

// deniedQueues returns the op's queues if it must not share a batch with others, or nil. etcd has denied these queues.
// It takes a search by halves to find the denied operations in a batch, and the others would wait for that.
func (o queueOp) deniedQueues() *Queues {
	if o.entry.q.denied {
		return o.entry.q
	}
	return nil
}

// outbox holds the operations to be sent. The lanes take batches from it. A lane with nothing in flight starts
// at once, so no operation waits for another one's answer while a lane is free.
//
// At most one creation per queue is in flight, because two keys created in one transaction would be equally
// first. No key is created in a queue while a deletion in that queue is in flight in another batch: a later
// entry must not find one that has left.
//
// The caller of each method holds Engine.mu.
type outbox struct {
	wake wait.Signal // receives when there may be something to take

	inFlight  int // etcd operations that were taken and are not done
	deletions []queueOp
	creations []queueOp            // creations, at most one per queue
	lines     map[string]queueLine // by queue; queues without restrictions have none
	peak      int                  // most lines since there were none
}

// queueLine holds the state of one queue that delays its next creation.
type queueLine struct {
	leaving  int       // deletions in flight
	entering bool      // a creation is ready or in flight
	behind   []queueOp // creations that follow, in order
}

func newOutbox() *outbox {
	return &outbox{wake: wait.NewSignal(), lines: map[string]queueLine{}}
}

func (b *outbox) addOp(o queueOp) {
	queue := o.entry.queue
	switch l := b.lines[queue]; {
	case !o.creates:
		b.deletions = append(b.deletions, o)
	case l.entering || l.leaving > 0:
		l.behind = append(l.behind, o)
		b.lines[queue] = l
	default:
		b.creations = append(b.creations, o)
		b.lines[queue] = queueLine{entering: true}
	}
	b.peak = max(b.peak, len(b.lines))
	b.wake.Send()
}

// takeBatch returns the next batch, of at most limit etcd operations. The caller must call finishOps for each operation
// once it is finished. The batch begins with again, operations that were taken before and are not finished.
// Deletions go first, because others wait for them.
func (b *outbox) takeBatch(limit int, again ...queueOp) []queueOp {
	limit = min(limit, b.batchShare())
	own := map[string]int{} // deletions in this batch do not block its creations
	apart := b.nextDeniedQueues(again)
	batch := append(again, b.takeDeletions(limit-len(again), apart)...)
	for _, o := range batch {
		own[o.entry.queue]++
	}
	cost := len(batch)
	b.creations = slices.DeleteFunc(b.creations, func(o queueOp) bool {
		queue := o.entry.queue
		if o.deniedQueues() != apart || cost+o.opCount() > limit || b.lines[queue].leaving > own[queue] {
			return false
		}
		cost, batch = cost+o.opCount(), append(batch, o)
		b.inFlight += o.opCount()
		return true
	})
	if len(batch) > 0 && len(b.deletions)+len(b.creations) > 0 {
		b.wake.Send() // another lane; if it finds nothing, the caller of finishOps takes again
	}
	return batch
}

// batchShare returns the share of the waiting operations that one batch takes. If one batch took all, then etcd, its
// disk and this process would wait for each other in turn.
func (b *outbox) batchShare() int {
	all := b.inFlight + len(b.deletions) + 2*len(b.creations)
	return max(maxTxnOps-1, (all+laneCount-1)/laneCount)
}

// nextDeniedQueues returns the queues that the next batch must be limited to because they are denied, or nil for all
// others. The first operation decides.
func (b *outbox) nextDeniedQueues(again []queueOp) *Queues {
	switch {
	case len(again) > 0:
		return again[0].deniedQueues()
	case len(b.deletions) > 0:
		return b.deletions[0].deniedQueues()
	case len(b.creations) > 0:
		return b.creations[0].deniedQueues()
	}
	return nil
}

// takeDeletions takes at most limit deletions.
func (b *outbox) takeDeletions(limit int, apart *Queues) (leaving []queueOp) {
	b.deletions = slices.DeleteFunc(b.deletions, func(o queueOp) bool {
		if len(leaving) >= limit || o.deniedQueues() != apart {
			return false
		}
		leaving = append(leaving, o)
		return true
	})
	for _, o := range leaving {
		l := b.lines[o.entry.queue]
		l.leaving++
		b.lines[o.entry.queue] = l
	}
	b.inFlight += len(leaving)
	return leaving
}

// finishOps finishes operations and makes the creations behind them ready. Its caller takes again.
func (b *outbox) finishOps(batch []queueOp) {
	for _, o := range batch {
		b.inFlight -= o.opCount()
		queue := o.entry.queue
		l := b.lines[queue]
		if o.creates {
			l.entering = false
		} else {
			l.leaving--
		}
		switch {
		case l.entering || l.leaving > 0:
			b.lines[queue] = l
		case len(l.behind) > 0:
			b.creations = append(b.creations, l.behind[0])
			b.lines[queue] = queueLine{entering: true, behind: l.behind[1:]}
		default:
			delete(b.lines, queue)
		}
	}
	if len(b.lines) == 0 && b.peak > 4*maxBatchOps {
		b.lines, b.creations, b.peak = map[string]queueLine{}, nil, 0 // so much memory is seldom needed
	}
}
