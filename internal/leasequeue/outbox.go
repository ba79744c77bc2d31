package leasequeue

import "slices"

// op creates the key of an entry, or deletes it.
type op struct {
	entry *Entry
	enter bool
}

// cost is how many of etcd's operations it takes.
func (o op) cost() int {
	if o.enter {
		return 2
	}
	return 1
}

// apart are its queues if it is not to go with those of others: etcd denies them, and it is found out one by one
// which of a batch are, for which the others would wait.
func (o op) apart() *Queues {
	if o.entry.q.denied {
		return o.entry.q
	}
	return nil
}

// outbox is what is to be sent; the lanes take from it. A lane that has nothing under way begins
// at once, so that nobody waits for an answer that is not his own while another lane is free.
//
// Of one queue at most one who enters is under way: those of one transaction would be equally
// first. And nobody enters while another one's deletion is under way, except with it in one
// transaction: who has left is not there for those who come later.
//
// All methods are called with the engine's lock held.
type outbox struct {
	wake chan struct{} // there may be something to take

	underway int // etcd's operations that were taken and are not done
	leaving  []op
	ready    []op            // to enter, of each queue at most one
	lines    map[string]line // by queue; none that says nothing
	peak     int             // of them since there were none
}

// line is what stands between those who want to enter a queue and the next batch.
type line struct {
	leaving  int  // deletions under way
	entering bool // one is ready, or under way
	behind   []op // who enters then, in order
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

// take is the next batch of at most that many of etcd's operations, for done to be called with
// when it is finished. It begins with those that were taken before and are not finished. Who leaves
// goes first: others wait for that.
func (b *outbox) take(limit int, again ...op) []op {
	limit = min(limit, b.share())
	own := map[string]int{} // who leaves in this very batch is in nobody's way
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
		poke(b.wake) // another lane; where that finds nothing, the one that calls done looks again
	}
	return batch
}

// share is how many operations a batch takes of many: all would else be under way together, and
// then nothing, while etcd, its disk and this process wait for each other in turn.
func (b *outbox) share() int {
	all := b.underway + len(b.leaving) + 2*len(b.ready)
	return max(levelOps-1, (all+lanes-1)/lanes)
}

// apart says which queues the next batch is about, after what was taken before: those of one root that is denied, or
// nil: all others.
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

// leave takes at most so many of those who leave.
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

// done lets those enter who come behind the batch. The one that calls it takes again.
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
		b.lines, b.ready, b.peak = map[string]line{}, nil, 0 // the memory for so many is seldom needed
	}
}
