package leasequeue

import "slices"

// op creates or deletes the key of an entry.
type op struct {
	entry *Entry
	enter bool
}

// cost returns the number of etcd operations that it takes.
func (o op) cost() int {
	if o.enter {
		return 2
	}
	return 1
}

// apart returns the op's queues if it must not share a batch with others, or nil. etcd has denied these queues.
// It takes a search by halves to find the denied operations in a batch, and the others would wait for that.
func (o op) apart() *Queues {
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
	wake chan struct{} // receives when there may be something to take

	underway int // etcd operations that were taken and are not done
	leaving  []op
	ready    []op            // creations, at most one per queue
	lines    map[string]line // by queue; queues without restrictions have none
	peak     int             // most lines since there were none
}

// line holds the state of one queue that delays its next creation.
type line struct {
	leaving  int  // deletions in flight
	entering bool // a creation is ready or in flight
	behind   []op // creations that follow, in order
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), lines: map[string]line{}}
}

func (b *outbox) add(o op) {
	queue := o.entry.queue
	switch l := b.lines[queue]; {
	case !o.enter:
		b.leaving = append(b.leaving, o)
	case l.entering || l.leaving > 0:
		l.behind = append(l.behind, o)
		b.lines[queue] = l
	default:
		b.ready = append(b.ready, o)
		b.lines[queue] = line{entering: true}
	}
	b.peak = max(b.peak, len(b.lines))
	poke(b.wake)
}

// take returns the next batch, of at most limit etcd operations. The caller must call done for each operation
// once it is finished. The batch begins with again, operations that were taken before and are not finished.
// Deletions go first, because others wait for them.
func (b *outbox) take(limit int, again ...op) []op {
	limit = min(limit, b.share())
	own := map[string]int{} // deletions in this batch do not block its creations
	apart := b.apart(again)
	batch := append(again, b.leave(limit-len(again), apart)...)
	for _, o := range batch {
		own[o.entry.queue]++
	}
	cost := len(batch)
	b.ready = slices.DeleteFunc(b.ready, func(o op) bool {
		queue := o.entry.queue
		if o.apart() != apart || cost+o.cost() > limit || b.lines[queue].leaving > own[queue] {
			return false
		}
		cost, batch = cost+o.cost(), append(batch, o)
		b.underway += o.cost()
		return true
	})
	if len(batch) > 0 && len(b.leaving)+len(b.ready) > 0 {
		poke(b.wake) // another lane; if it finds nothing, the caller of done takes again
	}
	return batch
}

// share returns the share of the waiting operations that one batch takes. If one batch took all, then etcd, its
// disk and this process would wait for each other in turn.
func (b *outbox) share() int {
	all := b.underway + len(b.leaving) + 2*len(b.ready)
	return max(levelOps-1, (all+lanes-1)/lanes)
}

// apart returns the queues that the next batch must be limited to because they are denied, or nil for all
// others. The first operation decides.
func (b *outbox) apart(again []op) *Queues {
	switch {
	case len(again) > 0:
		return again[0].apart()
	case len(b.leaving) > 0:
		return b.leaving[0].apart()
	case len(b.ready) > 0:
		return b.ready[0].apart()
	}
	return nil
}

// leave takes at most limit deletions.
func (b *outbox) leave(limit int, apart *Queues) (leaving []op) {
	b.leaving = slices.DeleteFunc(b.leaving, func(o op) bool {
		if len(leaving) >= limit || o.apart() != apart {
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
	b.underway += len(leaving)
	return leaving
}

// done finishes operations and makes the creations behind them ready. Its caller takes again.
func (b *outbox) done(batch []op) {
	for _, o := range batch {
		b.underway -= o.cost()
		queue := o.entry.queue
		l := b.lines[queue]
		if o.enter {
			l.entering = false
		} else {
			l.leaving--
		}
		switch {
		case l.entering || l.leaving > 0:
			b.lines[queue] = l
		case len(l.behind) > 0:
			b.ready = append(b.ready, l.behind[0])
			b.lines[queue] = line{entering: true, behind: l.behind[1:]}
		default:
			delete(b.lines, queue)
		}
	}
	if len(b.lines) == 0 && b.peak > 4*mostOps {
		b.lines, b.ready, b.peak = map[string]line{}, nil, 0 // so much memory is seldom needed
	}
}
