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

// idleAfter is the time for which an unused watch is kept.
const idleAfter = 10 * time.Second

// bucket is the part of a root's queues that shares one watch. The watch runs while an entry here waits or a
// follower listens, and for idleAfter longer: see watch.go.
type bucket struct {
	r        *run
	prefix   string
	requests string // prefix of all requests in the bucket, which are followed together
	wake     chan struct{}

	// Guarded by Engine.mu:

	queues map[string]*followed // by prefix
	// reported is the revision of the watch's last answer. When a read shows a change that the watch has not
	// reported, missed is set to the least revision that the watch must have reported by the next tick.
	reported, missed int64
}

// followed is a queue of interest: an entry of this process waits in it or a follower listens, or did a moment
// ago.
type followed struct {
	queue       order.Queue
	waiting     map[string]*Entry // by key; made on demand
	followers   []*Follower
	delivered   *order.Queue // last queue that the followers received
	news        bool         // entries or followers may have to be notified
	unconfirmed []*Entry     // waiting entries that may have lost their keys
	since       time.Time    // tick at which the queue was first found unused; zero while in use
}

func (f *followed) wanted() bool { return len(f.waiting) > 0 || len(f.followers) > 0 }

func newBucket(r *run, prefix, requests string) *bucket {
	return &bucket{r: r, prefix: prefix, requests: requests, wake: make(chan struct{}, 1),
		queues: map[string]*followed{}}
}

// add registers the entry for a notification when it is first. The caller holds Engine.mu.
func (b *bucket) add(x *Entry) {
	f := b.at(x.queue)
	if f.waiting == nil {
		f.waiting = map[string]*Entry{}
	}
	f.waiting[x.key] = x
	f.unconfirmed = append(f.unconfirmed, x)
	poke(b.wake)
}

// remove undoes add. The caller holds Engine.mu.
func (b *bucket) remove(x *Entry) {
	if f := b.queues[x.queue]; f != nil && f.waiting[x.key] == x {
		delete(f.waiting, x.key)
	}
}

// at returns the queue with that prefix, and adds it if needed. The caller holds Engine.mu.
func (b *bucket) at(queue string) *followed {
	f := b.queues[queue]
	if f == nil {
		f = &followed{}
		b.queues[queue] = f
	}
	f.since, f.news = time.Time{}, true
	return f
}

// again makes all waiting entries be checked, because the session may have become usable. The caller holds
// Engine.mu.
func (b *bucket) again() {
	for _, f := range b.queues {
		f.news = true
	}
	poke(b.wake)
}

// idle drops queues that were unused for a while, and reports whether none is left. The caller holds Engine.mu.
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

// forget drops the content of all queues, which is unknown without a watch. The caller holds Engine.mu.
func (b *bucket) forget() {
	for _, f := range b.queues {
		f.queue = order.Queue{}
	}
}

// fold applies the changes that the watch reports. The caller holds Engine.mu.
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

// about returns the queues that a key lies in: its own and, for a request, that of all requests. The caller
// holds Engine.mu.
func (b *bucket) about(key string) (both [2]*followed) {
	if end := strings.IndexByte(key[len(b.prefix):], '/'); end >= 0 {
		both[0] = b.queues[key[:len(b.prefix)+end+1]]
	}
	if strings.HasPrefix(key, b.requests) {
		both[1] = b.queues[b.requests]
	}
	return both
}

// unread returns the prefixes of queues that were not read yet, and with again also of those in use. The caller
// holds Engine.mu.
func (b *bucket) unread(again bool) []string {
	var unread []string
	for prefix, f := range b.queues {
		if !f.queue.Known() || again && f.wanted() {
			unread = append(unread, prefix)
		}
	}
	return unread
}

// readAs applies a read of a queue. The caller holds Engine.mu.
func (b *bucket) readAs(prefix string, read order.Queue) {
	f := b.queues[prefix]
	if f == nil {
		return
	}
	entries := read.Entries()
	for i := range entries {
		b.r.share(&entries[i]) // nothing else refers to them yet
	}
	before := f.queue
	f.queue = before.Newest(read)
	f.news, f.unconfirmed = true, slices.Collect(maps.Values(f.waiting))
	if before.Known() && !slices.Equal(before.Entries(), f.queue.Entries()) {
		b.missed = b.reported + 1
	}
}

// grant notifies entries that are first, entries without their key, and followers. It looks only at what has
// changed, because thousands of entries may wait here. The caller holds Engine.mu.
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
