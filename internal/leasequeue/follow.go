package leasequeue

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goverse/goverse/internal/leasequeue/order"
)

// part is what of a queue is followed.
type part int8

const (
	standing   part = iota // who stands in it
	requesting             // what is requested about it, and about all others in the bucket: it is little
	parts
)

// Follower knows one queue and the requests about it, on one session after the other, until it is
// stopped.
type Follower struct {
	e         *Engine
	queue     string
	changed   func()
	known     [parts]atomic.Pointer[order.Queue]
	stopped   atomic.Bool
	delivered [parts]bool // the bucket has reported it; guarded by that
}

// Follow has the queue of that name followed. changed is called after every change of what the
// follower knows; it must not block.
func (e *Engine) Follow(name string, changed func()) *Follower {
	f := &Follower{e: e, queue: e.queues.Queue(name), changed: changed}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.followers == nil {
		e.followers = map[*Follower]struct{}{}
	}
	e.followers[f] = struct{}{}
	if e.run != nil {
		e.run.follow(f)
	}
	return f
}

// Queue is who stands in the queue as far as this process knows; it is not Known before the
// first read, without a session, and after Stop.
func (f *Follower) Queue() order.Queue {
	if q := f.known[standing].Load(); q != nil && !f.stopped.Load() {
		return *q
	}
	return order.Queue{}
}

// Requests are those about the queue as far as this process knows, the first made first; none
// where Queue would not be Known.
func (f *Follower) Requests() []order.Entry {
	q := f.known[requesting].Load()
	if q == nil || len(q.Entries()) == 0 || f.stopped.Load() {
		return nil
	}
	bucket := f.e.queues.BucketOf(f.queue)
	ours := f.e.queues.RequestsIn(bucket) + f.queue[len(bucket):]
	return slices.DeleteFunc(slices.Clone(q.Entries()),
		func(x order.Entry) bool { return !strings.HasPrefix(x.Key, ours) })
}

// Stop ends the following. changed may still be called once.
func (f *Follower) Stop() {
	f.stopped.Store(true)
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	delete(f.e.followers, f)
	if f.e.run != nil {
		f.e.run.unfollow(f)
	}
}

// forget: nothing is known any more.
func (f *Follower) forget() {
	for p := range parts {
		f.known[p].Store(nil)
	}
	f.changed()
}

func (r *run) follow(f *Follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.bucket(f.queue); b != nil {
		b.follow(f)
	}
}

func (r *run) unfollow(f *Follower) {
	r.mu.Lock()
	b := r.buckets[r.e.queues.BucketOf(f.queue)]
	r.mu.Unlock()
	if b != nil {
		b.unfollow(f)
	}
}

func (b *bucket) follow(f *Follower) {
	b.mu.Lock()
	f.delivered = [parts]bool{}
	for _, prefix := range [parts]string{f.queue, b.requests} {
		at := b.at(prefix)
		at.followers = append(at.followers, f)
	}
	b.mu.Unlock()
	b.poke()
}

func (b *bucket) unfollow(f *Follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, prefix := range [parts]string{f.queue, b.requests} {
		if at := b.queues[prefix]; at != nil {
			at.followers = slices.DeleteFunc(at.followers, func(x *Follower) bool { return x == f })
		}
	}
}

// news is what a follower is to be notified of.
type news struct {
	follower *Follower
	part     part
	queue    *order.Queue
}

func (n news) deliver() {
	n.follower.known[n.part].Store(n.queue)
	n.follower.changed()
}

// pending is the news for those who follow a queue. The lock is held.
func (b *bucket) pending(prefix string, at *followed) []news {
	if len(at.followers) == 0 {
		return nil
	}
	changed := at.delivered == nil || !slices.Equal(at.delivered.Entries(), at.queue.Entries())
	if changed {
		now := at.queue
		at.delivered = &now
	}
	p := standing
	if prefix == b.requests {
		p = requesting
	}
	var out []news
	for _, f := range at.followers {
		if changed || !f.delivered[p] {
			f.delivered[p] = true
			out = append(out, news{f, p, at.delivered})
		}
	}
	return out
}
