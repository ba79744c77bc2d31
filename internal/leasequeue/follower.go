package leasequeue

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goverse/goverse/internal/leasequeue/order"
)

// followedPart is one of the two things that a Follower follows.
type followedPart int8

const (
	queuePart    followedPart = iota // the entries of the queue
	requestsPart                     // the requests in its bucket, about this queue and all others: there are few
	partCount
)

// Follower keeps the content of one queue and of the requests about it up to date, over all sessions, until
// Stop.
type Follower struct {
	q        *Queues
	queue    string
	onChange func()
	contents [partCount]atomic.Pointer[order.Queue] // replaced under Engine.mu
	stopped  atomic.Bool

	// Guarded by Engine.mu:

	deliveredParts [partCount]bool // whether the present bucket has delivered that part
}

// Follow returns a follower of the queue with that name. changed is called after each change that the follower
// learns of. It must not block.
func (q *Queues) Follow(name string, changed func()) *Follower {
	f := &Follower{q: q, queue: q.keys.QueuePrefix(name), onChange: changed}
	q.e.mu.Lock()
	defer q.e.unlock()
	q.followers[f] = struct{}{}
	if q.e.run != nil {
		q.e.run.addFollower(f)
	}
	return f
}

// Queue returns the queue as far as this process knows it. It is not Known before the first read, without a
// session, and after Stop.
func (f *Follower) Queue() order.Queue {
	if q := f.contents[queuePart].Load(); q != nil && !f.stopped.Load() {
		return *q
	}
	return order.Queue{}
}

// Requests returns the known requests about the queue, the oldest first. It returns none while Queue is not
// Known.
func (f *Follower) Requests() []order.Entry {
	q := f.contents[requestsPart].Load()
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
		f.q.e.run.removeFollower(f)
	}
}

// forgetContents drops all that is known. The caller holds Engine.mu.
func (f *Follower) forgetContents() {
	for p := range partCount {
		f.contents[p].Store(nil)
	}
	f.q.e.queueNotice(f.onChange)
}

// addFollower subscribes the follower to its bucket. The caller holds Engine.mu.
func (r *sessionRun) addFollower(f *Follower) {
	b := r.bucketFor(f.q, f.queue)
	if b == nil {
		return
	}
	f.deliveredParts = [partCount]bool{}
	for _, prefix := range [partCount]string{f.queue, b.requestsPrefix} {
		at := b.ensureQueue(prefix)
		at.followers = append(at.followers, f)
	}
	b.wake.Send()
}

// removeFollower undoes addFollower. The caller holds Engine.mu.
func (r *sessionRun) removeFollower(f *Follower) {
	b := r.buckets[f.q.keys.BucketOf(f.queue)]
	if b == nil {
		return
	}
	for _, prefix := range [partCount]string{f.queue, b.requestsPrefix} {
		if at := b.queues[prefix]; at != nil {
			at.followers = slices.DeleteFunc(at.followers, func(x *Follower) bool { return x == f })
		}
	}
}

// notifyFollowers passes changes of a queue on to its followers. The caller holds Engine.mu.
func (b *bucket) notifyFollowers(prefix string, at *watchedQueue) {
	if len(at.followers) == 0 {
		return
	}
	changed := at.lastDelivered == nil || !slices.Equal(at.lastDelivered.Entries(), at.queue.Entries())
	if changed {
		now := at.queue
		at.lastDelivered = &now
	}
	p := queuePart
	if prefix == b.requestsPrefix {
		p = requestsPart
	}
	for _, f := range at.followers {
		if changed || !f.deliveredParts[p] {
			f.deliveredParts[p] = true
			f.contents[p].Store(at.lastDelivered)
			b.r.e.queueNotice(f.onChange)
		}
	}
}
