package leasequeue

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/state"
)

// idleAfter is how long a watch is kept that nobody waits by.
const idleAfter = 10 * time.Second

// bucket is the part of all queues of one root in which somebody here waits. It watches them while that is
// so, and for a while after: see watch.go.
type bucket struct {
	r        *run
	prefix   string
	requests string // the prefix of all requests in it, which are followed together
	wake     chan struct{}

	// With the engine's lock held:

	queues map[string]*followed // by prefix
	// reported is the revision of the last answer of the watch; it should be missed, at the least,
	// by the next tick, for a read has shown what the watch had not reported.
	reported, missed int64
}

// followed is a queue in which somebody here waits, or that somebody follows, or was a moment
// ago.
type followed struct {
	queue       order.Queue
	waiting     map[string]*Entry // by key; made for the first
	followers   []*Follower
	delivered   *order.Queue // what they were
	news        bool         // somebody is to be notified, perhaps
	unconfirmed []*Entry     // of those who wait: their keys may be gone
	since       time.Time    // when nobody was interested any more, as of the last tick
}

func (f *followed) wanted() bool { return len(f.waiting) > 0 || len(f.followers) > 0 }

func newBucket(r *run, prefix, requests string) *bucket {
	return &bucket{r: r, prefix: prefix, requests: requests, wake: make(chan struct{}, 1),
		queues: map[string]*followed{}}
}

// add has the entry notified when it is first. The lock is held.
func (b *bucket) add(x *Entry) {
	f := b.at(x.queue)
	if f.waiting == nil {
		f.waiting = map[string]*Entry{}
	}
	f.waiting[x.key] = x
	f.unconfirmed = append(f.unconfirmed, x)
	poke(b.wake)
}

// remove is the end of that. The lock is held.
func (b *bucket) remove(x *Entry) {
	if f := b.queues[x.queue]; f != nil && f.waiting[x.key] == x {
		delete(f.waiting, x.key)
	}
}

// at is the queue with that prefix, which is wanted from now on. The lock is held.
func (b *bucket) at(queue string) *followed {
	f := b.queues[queue]
	if f == nil {
		f = &followed{}
		b.queues[queue] = f
	}
	f.since, f.news = time.Time{}, true
	return f
}

// again has all who wait be looked at: the session may be acted on again. The lock is held.
func (b *bucket) again() {
	for _, f := range b.queues {
		f.news = true
	}
	poke(b.wake)
}

// idle drops the queues in which nobody has waited for a while, and reports whether none
// is left. The lock is held.
func (b *bucket) idle(now time.Time) bool {
	for prefix, f := range b.queues {
		switch {
		case f.wanted():
			f.since = time.Time{}
		case f.since.IsZero():
			f.since = now
		case now.Sub(f.since) > idleAfter:
			delete(b.queues, prefix)
		}
	}
	return len(b.queues) == 0
}

// forget: without a watch nothing is known. The lock is held.
func (b *bucket) forget() {
	for _, f := range b.queues {
		f.queue = order.Queue{}
	}
}

// fold takes over what the watch reports. The lock is held.
func (b *bucket) fold(changes []order.Change) {
	touched := map[*followed][]order.Change{}
	for _, c := range changes {
		b.r.share(&c.Entry)
		for _, f := range b.about(c.Entry.Key) {
			if f != nil && f.queue.Known() {
				touched[f] = append(touched[f], c)
			}
		}
	}
	for f, changes := range touched {
		f.queue = f.queue.Fold(changes...).Reached(changes[len(changes)-1].Revision)
		f.news = true
		for _, c := range changes {
			if x := f.waiting[c.Entry.Key]; x != nil && c.Deleted {
				f.unconfirmed = append(f.unconfirmed, x)
			}
		}
	}
}

// about are the queues that a key lies in: its own, and if it is one, all requests. The lock is held.
func (b *bucket) about(key string) (both [2]*followed) {
	if end := strings.IndexByte(key[len(b.prefix):], '/'); end >= 0 {
		both[0] = b.queues[key[:len(b.prefix)+end+1]]
	}
	if strings.HasPrefix(key, b.requests) {
		both[1] = b.queues[b.requests]
	}
	return both
}

// unread are the queues that are not known yet; again: those too that somebody wants to know. The lock is held.
func (b *bucket) unread(again bool) []string {
	var unread []string
	for prefix, f := range b.queues {
		if !f.queue.Known() || again && f.wanted() {
			unread = append(unread, prefix)
		}
	}
	return unread
}

// readAs takes over a queue as it was read. The lock is held.
func (b *bucket) readAs(prefix string, read order.Queue) {
	f := b.queues[prefix]
	if f == nil {
		return
	}
	entries := read.Entries()
	for i := range entries {
		b.r.share(&entries[i]) // nobody else has them yet
	}
	before := f.queue
	f.queue = before.Newest(read)
	f.news, f.unconfirmed = true, slices.Collect(maps.Values(f.waiting))
	if before.Known() && !slices.Equal(before.Entries(), f.queue.Entries()) {
		b.missed = b.reported + 1
	}
}

// grant tells those who wait and are first, those whose key is gone, and those who follow. It
// looks at what is new alone: thousands may wait here. The lock is held.
func (b *bucket) grant() {
	for prefix, f := range b.queues {
		if !f.news || !f.queue.Known() {
			continue
		}
		f.news = false
		b.deliver(prefix, f)
		unconfirmed := f.unconfirmed
		f.unconfirmed = nil
		for _, x := range unconfirmed {
			if create := x.Token(); f.waiting[x.key] == x && !f.queue.Has(x.key, create) && f.queue.After(create) {
				x.turn(x.now().Vanished())
			}
		}
		for _, e := range f.queue.Holders() {
			if x := f.waiting[e.Key]; x != nil && x.Token() == e.Create {
				x.atHead()
			}
		}
	}
}

func entryOf(kv *mvccpb.KeyValue) order.Entry {
	traits := state.TraitsOf(string(kv.Key))
	return order.Entry{Key: string(kv.Key), Create: kv.CreateRevision, Shared: traits.Shared, Priority: traits.Priority,
		Foreign: !traits.Own, Value: string(kv.Value), Lease: kv.Lease}
}

func entriesOf(found *clientv3.GetResponse) []order.Entry {
	entries := make([]order.Entry, len(found.Kvs))
	for i, kv := range found.Kvs {
		entries[i] = entryOf(kv)
	}
	return entries
}
