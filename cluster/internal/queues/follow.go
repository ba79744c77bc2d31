package queues

import (
	"slices"
	"sync/atomic"

	"github.com/goverse/goverse/cluster/internal/queueing"
)

// Follower knows one queue, on one session after the other, until it is stopped.
type Follower struct {
	e       *Engine
	queue   string
	changed func()
	known   atomic.Pointer[queueing.Queue]
	stopped atomic.Bool
	told    *queueing.Queue // what the bucket has told it, guarded by that; nil: nothing yet
}

// Follow has the queue of that name followed, or that of the wishes about it. changed is
// called after every change of [Follower.Queue]; it must not block.
func (e *Engine) Follow(name string, wishes bool, changed func()) *Follower {
	f := &Follower{e: e, queue: e.keys(wishes).Queue(name), changed: changed}
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
func (f *Follower) Queue() queueing.Queue {
	if q := f.known.Load(); q != nil && !f.stopped.Load() {
		return *q
	}
	return queueing.Queue{}
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

// tell gives the follower what is known; nil is nothing.
func (f *Follower) tell(q *queueing.Queue) {
	f.known.Store(q)
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
	b := r.buckets[r.e.cfg.Keys.BucketOf(f.queue)]
	r.mu.Unlock()
	if b != nil {
		b.unfollow(f)
	}
}

func (b *bucket) follow(f *Follower) {
	b.mu.Lock()
	at := b.at(f.queue)
	at.followers, f.told = append(at.followers, f), nil
	b.mu.Unlock()
	b.poke()
}

func (b *bucket) unfollow(f *Follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.queues[f.queue]; at != nil {
		at.followers = slices.DeleteFunc(at.followers, func(x *Follower) bool { return x == f })
	}
}
