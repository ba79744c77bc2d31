package leasequeue

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// idleTimeout is the time for which an unused watch is kept.
const idleTimeout = 10 * time.Second

// bucket is the part of a root's queues that shares one watch. The watch runs while an entry here waits or a
// follower listens, and for idleTimeout longer: see watch.go.
type bucket struct {
	r              *sessionRun
	prefix         string
	requestsPrefix string // prefix of all requests in the bucket, which are followed together
	wake           wait.Signal

	// Guarded by Engine.mu:

	queues map[string]*watchedQueue // by prefix
	// reportedRevision is the revision of the watch's last answer. When a read shows a change that the watch has not
	// reported, missed is set to the least revision that the watch must have reported by the next tick.
	reportedRevision, missedRevision int64
}

// watchedQueue is a queue of interest: an entry of this process waits in it or a follower listens, or did a moment
// ago.
type watchedQueue struct {
	queue         order.Queue
	waiters       map[string]*Entry // by key; made on demand
	followers     []*Follower
	lastDelivered *order.Queue // last queue that the followers received
	changed       bool         // entries or followers may have to be notified
	unconfirmed   []*Entry     // waiting entries that may have lost their keys
	unusedSince   time.Time    // tick at which the queue was first found unused; zero while in use
}

func (f *watchedQueue) inUse() bool { return len(f.waiters) > 0 || len(f.followers) > 0 }

func newBucket(r *sessionRun, prefix, requests string) *bucket {
	return &bucket{r: r, prefix: prefix, requestsPrefix: requests, wake: wait.NewSignal(),
		queues: map[string]*watchedQueue{}}
}

// addWaiter registers the entry for a notification when it is first. The caller holds Engine.mu.
func (b *bucket) addWaiter(x *Entry) {
	f := b.ensureQueue(x.queue)
	if f.waiters == nil {
		f.waiters = map[string]*Entry{}
	}
	f.waiters[x.key] = x
	f.unconfirmed = append(f.unconfirmed, x)
	b.wake.Send()
}

// removeWaiter undoes addWaiter. The caller holds Engine.mu.
func (b *bucket) removeWaiter(x *Entry) {
	if f := b.queues[x.queue]; f != nil && f.waiters[x.key] == x {
		delete(f.waiters, x.key)
	}
}

// ensureQueue returns the queue with that prefix, and adds it if needed. The caller holds Engine.mu.
func (b *bucket) ensureQueue(queue string) *watchedQueue {
	f := b.queues[queue]
	if f == nil {
		f = &watchedQueue{}
		b.queues[queue] = f
	}
	f.unusedSince, f.changed = time.Time{}, true
	return f
}

// recheckWaiting makes all waiting entries be checked, because the session may have become usable. The caller holds
// Engine.mu.
func (b *bucket) recheckWaiting() {
	for _, f := range b.queues {
		f.changed = true
	}
	b.wake.Send()
}

// dropUnused drops queues that were unused for a while, and reports whether none is left. The caller holds Engine.mu.
func (b *bucket) dropUnused(now time.Time) bool {
	for prefix, f := range b.queues {
		switch {
		case f.inUse():
			f.unusedSince = time.Time{}
		case f.unusedSince.IsZero():
			f.unusedSince = now
		case now.Sub(f.unusedSince) > idleTimeout:
			delete(b.queues, prefix)
		}
	}
	return len(b.queues) == 0
}

// forgetContents drops the content of all queues, which is unknown without a watch. The caller holds Engine.mu.
func (b *bucket) forgetContents() {
	for _, f := range b.queues {
		f.queue = order.Queue{}
	}
}

// applyChanges applies the changes that the watch reports. The caller holds Engine.mu.
func (b *bucket) applyChanges(changes []order.Change) {
	touched := map[*watchedQueue][]order.Change{}
	for _, c := range changes {
		b.r.shareStrings(&c.Entry)
		for _, f := range b.queuesOf(c.Entry.Key) {
			if f != nil && f.queue.Known() {
				touched[f] = append(touched[f], c)
			}
		}
	}
	for f, changes := range touched {
		f.queue = f.queue.ApplyChanges(changes...).AdvanceTo(changes[len(changes)-1].Revision)
		f.changed = true
		for _, c := range changes {
			if x := f.waiters[c.Entry.Key]; x != nil && c.Deleted {
				f.unconfirmed = append(f.unconfirmed, x)
			}
		}
	}
}

// queuesOf returns the queues that a key lies in: its own and, for a request, that of all requests. The caller
// holds Engine.mu.
func (b *bucket) queuesOf(key string) (both [2]*watchedQueue) {
	if end := strings.IndexByte(key[len(b.prefix):], '/'); end >= 0 {
		both[0] = b.queues[key[:len(b.prefix)+end+1]]
	}
	if strings.HasPrefix(key, b.requestsPrefix) {
		both[1] = b.queues[b.requestsPrefix]
	}
	return both
}

// unreadQueues returns the prefixes of queues that were not read yet, and with again also of those in use. The caller
// holds Engine.mu.
func (b *bucket) unreadQueues(again bool) []string {
	var unread []string
	for prefix, f := range b.queues {
		if !f.queue.Known() || again && f.inUse() {
			unread = append(unread, prefix)
		}
	}
	return unread
}

// applyRead applies a read of a queue. The caller holds Engine.mu.
func (b *bucket) applyRead(prefix string, read order.Queue) {
	f := b.queues[prefix]
	if f == nil {
		return
	}
	entries := read.Entries()
	for i := range entries {
		b.r.shareStrings(&entries[i]) // nothing else refers to them yet
	}
	before := f.queue
	f.queue = before.Newer(read)
	f.changed, f.unconfirmed = true, slices.Collect(maps.Values(f.waiters))
	if before.Known() && !slices.Equal(before.Entries(), f.queue.Entries()) {
		b.missedRevision = b.reportedRevision + 1
	}
}

// notifyWaiters notifies entries that are first, entries without their key, and followers. It looks only at what has
// changed, because thousands of entries may wait here. The caller holds Engine.mu.
func (b *bucket) notifyWaiters() {
	for prefix, f := range b.queues {
		if !f.changed || !f.queue.Known() {
			continue
		}
		f.changed = false
		b.notifyFollowers(prefix, f)
		unconfirmed := f.unconfirmed
		f.unconfirmed = nil
		for _, x := range unconfirmed {
			if create := x.Token(); f.waiters[x.key] == x && !f.queue.HasEntry(x.key, create) && f.queue.KnownAt(create) {
				x.applyChange(x.state.Load().KeyVanished())
			}
		}
		for _, e := range f.queue.Holders() {
			if x := f.waiters[e.Key]; x != nil && x.Token() == e.CreateRevision {
				x.applyInSession(entrystate.State.HeadReached)
			}
		}
	}
}

func parseEntry(kv *mvccpb.KeyValue) order.Entry {
	traits := state.TraitsOf(string(kv.Key))
	return order.Entry{Key: string(kv.Key), CreateRevision: kv.CreateRevision, Shared: traits.Shared,
		Priority: traits.Priority,
		Foreign:  !traits.WrittenByGoverse, Value: string(kv.Value), Lease: kv.Lease}
}

func parseEntries(found *clientv3.GetResponse) []order.Entry {
	entries := make([]order.Entry, len(found.Kvs))
	for i, kv := range found.Kvs {
		entries[i] = parseEntry(kv)
	}
	return entries
}
