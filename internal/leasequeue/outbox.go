package leasequeue

import (
	"slices"
	"sync"
)

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

// outbox is what is to be sent; the lanes take from it. A lane that has nothing under way begins
// at once, so that nobody waits for an answer that is not his own while another lane is free.
//
// Of one queue at most one who enters is under way: those of one transaction would be equally
// first. And nobody enters while another one's deletion is under way, except with it in one
// transaction: who has left is not there for those who come later.
type outbox struct {
	wake chan struct{} // there may be something to take

	mu       sync.Mutex
	underway int // etcd's operations that were taken and are not done
	leaving  []op
	ready    []op            // to enter, of each queue at most one
	lines    map[string]line // by queue; none that says nothing
	most     int             // of them there were since there were none
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
	b.mu.Lock()
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
	b.most = max(b.most, len(b.lines))
	b.mu.Unlock()
	b.poke()
}

func (b *outbox) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take is the next batch of at most that many of etcd's operations, for done to be called with
// when it is made. It begins with those that were taken before and not made. Who leaves goes
// first: others wait for that.
func (b *outbox) take(most int, again ...op) []op {
	b.mu.Lock()
	defer b.mu.Unlock()
	most = min(most, b.share())
	own := map[string]int{} // who leaves in this very batch is in nobody's way
	batch := append(again, b.leave(most-len(again))...)
	for _, o := range batch {
		own[o.entry.queue]++
	}
	cost := len(batch)
	b.ready = slices.DeleteFunc(b.ready, func(o op) bool {
		queue := o.entry.queue
		if cost+o.cost() > most || b.lines[queue].leaving > own[queue] {
			return false
		}
		cost, batch = cost+o.cost(), append(batch, o)
		b.underway += o.cost()
		return true
	})
	if len(batch) > 0 && len(b.leaving)+len(b.ready) > 0 {
		b.poke() // another lane; where that finds nothing, the one that calls done looks again
	}
	return batch
}

// share is how many operations a batch takes of many: all would else be under way together, and
// then nothing, while etcd, its disk and this process wait for each other in turn.
func (b *outbox) share() int {
	all := b.underway + len(b.leaving) + 2*len(b.ready)
	return max(levelOps-1, (all+lanes-1)/lanes)
}

// takeLeaving is at most so many of those who leave.
func (b *outbox) takeLeaving(most int) []op {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leave(most)
}

// leave takes at most so many of those who leave. The lock is held.
func (b *outbox) leave(most int) []op {
	n := max(0, min(len(b.leaving), most))
	leaving := slices.Clone(b.leaving[:n])
	for _, o := range leaving {
		l := b.lines[o.entry.queue]
		l.leaving++
		b.lines[o.entry.queue] = l
	}
	b.underway += n
	b.leaving = slices.Delete(b.leaving, 0, n)
	return leaving
}

// done lets those enter who come behind the batch. The one that calls it takes again.
func (b *outbox) done(batch []op) {
	b.mu.Lock()
	defer b.mu.Unlock()
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
	if len(b.lines) == 0 && b.most > 4*mostOps {
		b.lines, b.ready, b.most = map[string]line{}, nil, 0 // the memory for so many is seldom needed
	}
}
