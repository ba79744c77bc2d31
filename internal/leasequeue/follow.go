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
	ofQueue    part = iota // who stands in it
	ofRequests             // what is requested about it, and about all others in the bucket: it is little
	parts
)

// Follower knows one queue and the requests about it, on one session after the other, until it is
// stopped.
type Follower struct {
	q       *Queues
	queue   string
	changed func()
	known   [parts]atomic.Pointer[order.Queue] // replaced with the engine's lock held
	stopped atomic.Bool

	// With the engine's lock held:

	delivered [parts]bool // by the present bucket
}

// Follow has the queue of that name followed. changed is called after every change of what the
// follower knows; it must not block.
func (q *Queues) Follow(name string, changed func()) *Follower {
	f := &Follower{q: q, queue: q.keys.Queue(name), changed: changed}
	q.e.mu.Lock()
	defer q.e.unlock()
	q.followers[f] = struct{}{}
	if q.e.run != nil {
		q.e.run.follow(f)
	}
	return f
}

// Queue is who stands in the queue as far as this process knows; it is not Known before the
// first read, without a session, and after Stop.
func (f *Follower) Queue() order.Queue {
	if q := f.known[ofQueue].Load(); q != nil && !f.stopped.Load() {
		return *q
	}
	return order.Queue{}
}

// Requests are those about the queue as far as this process knows, the first made first; none
// where Queue would not be Known.
func (f *Follower) Requests() []order.Entry {
	q := f.known[ofRequests].Load()
	if q == nil || len(q.Entries()) == 0 || f.stopped.Load() {
		return nil
	}
	bucket := f.q.keys.BucketOf(f.queue)
	ours := f.q.keys.RequestsIn(bucket) + f.queue[len(bucket):]
	return slices.DeleteFunc(slices.Clone(q.Entries()),
		func(x order.Entry) bool { return !strings.HasPrefix(x.Key, ours) })
}

// Stop ends the following. changed may still be called once.
func (f *Follower) Stop() {
	f.stopped.Store(true)
	f.q.e.mu.Lock()
	defer f.q.e.unlock()
	delete(f.q.followers, f)
	if f.q.e.run != nil {
		f.q.e.run.unfollow(f)
	}
}

// forget: nothing is known any more. The lock is held.
func (f *Follower) forget() {
	for p := range parts {
		f.known[p].Store(nil)
	}
	f.q.e.later(f.changed)
}

// follow has the bucket tell the follower. The lock is held.
func (r *run) follow(f *Follower) {
	b := r.bucket(f.q, f.queue)
	if b == nil {
		return
	}
	f.delivered = [parts]bool{}
	for _, prefix := range [parts]string{f.queue, b.requests} {
		at := b.at(prefix)
		at.followers = append(at.followers, f)
	}
	poke(b.wake)
}

// unfollow is the end of that. The lock is held.
func (r *run) unfollow(f *Follower) {
	b := r.buckets[f.q.keys.BucketOf(f.queue)]
	if b == nil {
		return
	}
	for _, prefix := range [parts]string{f.queue, b.requests} {
		if at := b.queues[prefix]; at != nil {
			at.followers = slices.DeleteFunc(at.followers, func(x *Follower) bool { return x == f })
		}
	}
}

// deliver tells those who follow a queue what is new to them. The lock is held.
func (b *bucket) deliver(prefix string, at *followed) {
	if len(at.followers) == 0 {
		return
	}
	changed := at.delivered == nil || !slices.Equal(at.delivered.Entries(), at.queue.Entries())
	if changed {
		now := at.queue
		at.delivered = &now
	}
	p := ofQueue
	if prefix == b.requests {
		p = ofRequests
	}
	for _, f := range at.followers {
		if changed || !f.delivered[p] {
			f.delivered[p] = true
			f.known[p].Store(at.delivered)
			b.r.e.later(f.changed)
		}
	}
}
