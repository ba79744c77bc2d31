package leasequeue

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goverse/goverse/internal/leasequeue/order"
)

// part is one of the two things that a Follower follows.
type part int8

const (
	ofQueue    part = iota // the entries of the queue
	ofRequests             // the requests in its bucket, about this queue and all others: there are few
	parts
)

// Follower keeps the content of one queue and of the requests about it up to date, over all sessions, until
// Stop.
type Follower struct {
	q       *Queues
	queue   string
	changed func()
	known   [parts]atomic.Pointer[order.Queue] // replaced under Engine.mu
	stopped atomic.Bool

	// Guarded by Engine.mu:

	delivered [parts]bool // whether the present bucket has delivered that part
}

// Follow returns a follower of the queue with that name. changed is called after each change that the follower
// learns of. It must not block.
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

// Queue returns the queue as far as this process knows it. It is not Known before the first read, without a
// session, and after Stop.
func (f *Follower) Queue() order.Queue {
	if q := f.known[ofQueue].Load(); q != nil && !f.stopped.Load() {
		return *q
	}
	return order.Queue{}
}

// Requests returns the known requests about the queue, the oldest first. It returns none while Queue is not
// Known.
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

// Stop ends the follower. changed may still be called once.
func (f *Follower) Stop() {
	f.stopped.Store(true)
	f.q.e.mu.Lock()
	defer f.q.e.unlock()
	delete(f.q.followers, f)
	if f.q.e.run != nil {
		f.q.e.run.unfollow(f)
	}
}

// forget drops all that is known. The caller holds Engine.mu.
func (f *Follower) forget() {
	for p := range parts {
		f.known[p].Store(nil)
	}
	f.q.e.later(f.changed)
}

// follow subscribes the follower to its bucket. The caller holds Engine.mu.
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

// unfollow undoes follow. The caller holds Engine.mu.
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

// deliver passes changes of a queue on to its followers. The caller holds Engine.mu.
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
