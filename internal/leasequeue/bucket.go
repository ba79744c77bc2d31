package leasequeue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// mostReads is how many queues are read in one transaction.
const mostReads = 64

// watchRetry is how long to wait after a watch that was lost, and after a question that all wait for.
// It begins anew after a watch that stood for longer than it can grow.
var watchRetry = backoff.Policy{First: 20 * time.Millisecond, Last: time.Second}

var (
	errIdle   = errors.New("nobody waits here any longer")
	errSilent = errors.New("the watch does not tell what a read shows")
)

// bucket is the part of all queues in which somebody here waits. It watches them while that is
// so, and for a while after.
type bucket struct {
	r        *run
	prefix   string
	requests string // the prefix of all requests in it, which are followed together
	wake     chan struct{}

	mu     sync.Mutex
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

func newBucket(r *run, prefix string) *bucket {
	return &bucket{r: r, prefix: prefix, requests: r.e.queues.RequestsIn(prefix), wake: make(chan struct{}, 1),
		queues: map[string]*followed{}}
}

func (b *bucket) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *bucket) add(x *Entry) {
	b.mu.Lock()
	f := b.at(x.queue)
	if next := f.waiting[x.key]; next != nil && next.create > x.create {
		b.mu.Unlock()
		return // x has left, and its key is another one's
	}
	if f.waiting == nil {
		f.waiting = map[string]*Entry{}
	}
	f.waiting[x.key] = x
	f.unconfirmed = append(f.unconfirmed, x)
	b.mu.Unlock()
	b.poke()
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

// again has all who wait be looked at: the session may be acted on again.
func (b *bucket) again() {
	b.mu.Lock()
	for _, f := range b.queues {
		f.news = true
	}
	b.mu.Unlock()
	b.poke()
}

func (b *bucket) remove(x *Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.queues[x.queue]; f != nil && f.waiting[x.key] == x {
		delete(f.waiting, x.key)
	}
}

// run watches until nobody has waited for a while, or the session is lost.
func (b *bucket) run() {
	retry := b.r.e.retry(watchRetry)
	for {
		began := time.Now()
		err := b.watch(b.r.ctx)
		if errors.Is(err, errIdle) && b.retire() || b.r.ctx.Err() != nil {
			return
		}
		if time.Since(began) > watchRetry.Last {
			retry.Reset()
		}
		if !errors.Is(err, errIdle) && retry.Failures() == 0 { // the others in a row say the same
			b.r.e.cfg.Logger.Info("lost a watch of queues, opening it anew", "error", err)
		}
		// Where etcd answers requests and opens no watch, who waits is notified by reads alone.
		if err := b.read(b.r.ctx, true); err == nil {
			b.grant()
		}
		b.mu.Lock()
		for _, f := range b.queues {
			f.queue = order.Queue{}
		}
		b.mu.Unlock()
		if !wait.For(b.r.ctx, retry.Next()) {
			return
		}
	}
}

// retire takes the bucket out of use, unless somebody has come meanwhile.
func (b *bucket) retire() bool {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues) > 0 {
		return false
	}
	delete(b.r.buckets, b.prefix)
	return true
}

// watch opens the watch, reads what is waited for, and follows it.
func (b *bucket) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(
		metadata.AppendToOutgoingContext(ctx, "goverse-queues", fmt.Sprintf("%p", b.r.e))))
	defer cancel()
	b.reported, b.missed = 0, 0
	opening := time.AfterFunc(b.r.e.cfg.RequestTimeout, cancel)
	// From what comes next on, and read after it was opened: etcd reports to such a watch at
	// once, and one that goes on from an older revision only when it looks at those that lag.
	events := b.r.e.cfg.Client.Watch(ctx, b.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if resp, ok := <-events; !ok || resp.Err() != nil || !resp.Created {
		err := errors.Join(resp.Err(), context.Cause(ctx))
		if err == nil {
			err = errSilent
		}
		return fmt.Errorf("open a watch of %s: %w", b.prefix, err)
	}
	if !opening.Stop() {
		return context.Cause(ctx)
	}
	tick := time.NewTicker(b.r.s.TTL() / 3)
	defer tick.Stop()
	again := false // read also what is known
	for {
		if err := b.read(ctx, again); err != nil {
			return err
		}
		again = false
		b.grant()
		select {
		case resp, ok := <-events:
			if !ok {
				return errors.New("the watch ended")
			}
			if err := resp.Err(); err != nil {
				return err
			}
			b.r.saw(resp.Header)
			b.fold(resp.Events)
			b.reported = max(b.reported, resp.Header.Revision)
		case <-b.wake:
		case <-tick.C:
			if b.idle() {
				return errIdle
			}
			if b.missed > b.reported {
				return errSilent
			}
			again = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// idle drops the queues in which nobody has waited for a while, and reports whether none
// is left.
func (b *bucket) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for prefix, f := range b.queues {
		switch {
		case f.wanted():
			f.since = time.Time{}
		case f.since.IsZero():
			f.since = time.Now()
		case time.Since(f.since) > idleAfter:
			delete(b.queues, prefix)
		}
	}
	return len(b.queues) == 0
}

func (b *bucket) fold(events []*clientv3.Event) {
	entries := make([]order.Entry, len(events))
	for i, ev := range events {
		entries[i] = entryOf(ev.Kv)
	}
	b.r.share(entries)
	b.mu.Lock()
	defer b.mu.Unlock()
	touched := map[*followed]int64{}
	for i, ev := range events {
		key := entries[i].Key
		var both [2]*followed
		if end := strings.IndexByte(key[len(b.prefix):], '/'); end >= 0 {
			both[0] = b.queues[key[:len(b.prefix)+end+1]]
		}
		if strings.HasPrefix(key, b.requests) {
			both[1] = b.queues[b.requests]
		}
		for _, f := range both {
			if f == nil || !f.queue.Known() {
				continue
			}
			if ev.Type == mvccpb.Event_DELETE {
				f.queue = f.queue.Delete(ev.Kv.ModRevision, key)
				if x := f.waiting[key]; x != nil {
					f.unconfirmed = append(f.unconfirmed, x)
				}
			} else {
				f.queue = f.queue.Put(ev.Kv.ModRevision, entries[i])
			}
			touched[f] = ev.Kv.ModRevision
		}
	}
	for f, revision := range touched {
		f.queue, f.news = f.queue.Reached(revision), true
	}
}

func entryOf(kv *mvccpb.KeyValue) order.Entry {
	traits := state.TraitsOf(string(kv.Key))
	return order.Entry{Key: string(kv.Key), Create: kv.CreateRevision, Shared: traits.Shared, Priority: traits.Priority,
		Foreign: !traits.Own, Value: string(kv.Value), Lease: kv.Lease}
}

// read reads the queues that are not known yet; again: those too in which somebody waits.
func (b *bucket) read(ctx context.Context, again bool) error {
	b.mu.Lock()
	var unread []string
	for prefix, f := range b.queues {
		if !f.queue.Known() || again && f.wanted() {
			unread = append(unread, prefix)
		}
	}
	b.mu.Unlock()
	for len(unread) > 0 {
		some := unread[:min(len(unread), mostReads)]
		unread = unread[len(some):]
		if err := b.readSome(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucket) readSome(ctx context.Context, prefixes []string) error {
	ops := make([]clientv3.Op, len(prefixes))
	for i, prefix := range prefixes {
		ops[i] = clientv3.OpGet(prefix, clientv3.WithPrefix())
	}
	ctx, cancel := context.WithTimeout(ctx, b.r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := b.r.e.cfg.Client.Txn(ctx).Then(ops...).Commit()
	if half := len(prefixes) / 2; half > 0 &&
		(errors.Is(err, rpctypes.ErrTooManyOps) || errors.Is(err, rpctypes.ErrPermissionDenied)) {
		// What is denied is denied for those alone whom it concerns.
		return errors.Join(b.readSome(ctx, prefixes[:half]), b.readSome(ctx, prefixes[half:]))
	}
	if err != nil {
		return fmt.Errorf("read the queues: %w", err)
	}
	b.r.saw(resp.Header)
	found := make([][]order.Entry, len(prefixes))
	for i := range found {
		found[i] = entriesOf((*clientv3.GetResponse)(resp.Responses[i].GetResponseRange()))
		b.r.share(found[i])
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, prefix := range prefixes {
		f := b.queues[prefix]
		if f == nil {
			continue
		}
		before := f.queue
		f.queue = before.Read(resp.Header.Revision, found[i])
		f.news, f.unconfirmed = true, slices.Collect(maps.Values(f.waiting))
		if before.Known() && !slices.Equal(before.Entries(), f.queue.Entries()) {
			b.missed = b.reported + 1
		}
	}
	return nil
}

// grant notifies those who wait and are first, those whose key is gone, and those who follow. It
// looks at what is new alone: thousands may wait here.
func (b *bucket) grant() {
	b.mu.Lock()
	var vanished []*Entry
	var pending []news
	for prefix, f := range b.queues {
		if !f.news || !f.queue.Known() {
			continue
		}
		f.news = false
		pending = append(pending, b.pending(prefix, f)...)
		for _, x := range f.unconfirmed {
			if f.waiting[x.key] == x && !f.queue.Has(x.key, x.create) && f.queue.After(x.create) {
				delete(f.waiting, x.key)
				vanished = append(vanished, x)
			}
		}
		f.unconfirmed = nil
		for _, e := range f.queue.Holders() {
			if x := f.waiting[e.Key]; x != nil && x.create == e.Create {
				if granted, _ := x.grant(); granted {
					delete(f.waiting, e.Key)
				}
			}
		}
	}
	b.mu.Unlock()
	for _, x := range vanished {
		x.vanished()
	}
	for _, n := range pending {
		n.deliver()
	}
}
