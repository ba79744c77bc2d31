package leasequeue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// lanes is how many batches may be under way at a time: few, for etcd's work and ours is less by
// the operation the more of them go together; more than one, so that one can be on its way while
// another is written to the disk.
const lanes = 3

// run is all that stands on one session.
type run struct {
	e           *Engine
	s           *etcdsession.Session
	ctx         context.Context
	cancel      context.CancelFunc
	unsubscribe func() // from changes of the session
	wg          sync.WaitGroup
	outbox      *outbox
	term        atomic.Uint64 // of raft at etcd, the newest that an answer was of
	lanes       [lanes]*lane
	// Who waits, and who only tries.
	patient, hasty *clearing

	mu      sync.Mutex
	number  int64 // the last that was drawn, where the least were not free
	used    bool  // somebody has entered: there are lanes, and something to look after
	ended   bool
	denied  bool              // read and written by who serves
	closing bool              // nobody enters any more
	cleared chan struct{}     // closed when no entry is left, if anybody asked
	entries map[string]*Entry // by key
	barred  map[string]int    // keys that nobody gets at present, by how many that has to do with
	buckets map[string]*bucket
	stuck   []*Entry // whose deletion etcd has refused since the last tick
	// unconfirmed are barred keys that stand or do not, and will not be put any more.
	unconfirmed []string
}

func newRun(e *Engine, s *etcdsession.Session) *run {
	r := &run{e: e, s: s, outbox: newOutbox(), entries: map[string]*Entry{}, barred: map[string]int{},
		buckets: map[string]*bucket{}}
	r.ctx, r.cancel = context.WithCancel(s.Context())
	for i := range r.lanes {
		r.lanes[i] = newLane(r, i)
	}
	r.patient, r.hasty = newClearing(r, true), newClearing(r, false)
	r.unsubscribe = s.OnChange(r.poke)
	return r
}

// serve looks after what stands on the session until that is lost, or ctx ends.
func (r *run) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, r.cancel)()
	for wait.For(r.ctx, r.s.TTL()/3) {
		r.leaveAgain()
		r.sweep()
		r.compare()
	}
}

// end joins all that was started.
func (r *run) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.unsubscribe()
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.entries {
		x.end(ErrAgain)
	}
}

// poke makes all who wait look whether they hold: the session may be acted on again, or not any
// more.
func (r *run) poke() {
	r.mu.Lock()
	for _, b := range r.buckets {
		b.again()
	}
	r.mu.Unlock()
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	r.e.change()
}

// enter queues; the entry settles later.
func (r *run) enter(p Place) *Entry {
	x := &Entry{Place: p, run: r}
	r.mu.Lock()
	switch {
	case r.closing:
		r.mu.Unlock()
		x.end(lifecycle.ErrStopped)
		return x
	case r.ended:
		r.mu.Unlock()
		x.end(ErrAgain)
		return x
	}
	if !r.used {
		r.used = true
		for _, l := range r.lanes {
			r.wg.Go(l.run)
		}
		if r.e.cfg.View != nil {
			r.wg.Go(r.patient.run)
			r.wg.Go(r.hasty.run)
		}
	}
	x.key = r.free(p)
	x.queue = x.key[:strings.LastIndexByte(x.key, '/')+1]
	r.entries[x.key] = x
	r.mu.Unlock()
	r.outbox.add(op{entry: x, enter: true})
	return x
}

// sameName is up to how many entries of one name use the least numbers that are free.
const sameName = 64

// free is a key that no entry has. Those that were used before are preferred: etcd keeps a
// trace of each key that ever was, until it compacts, and steps over them when it reads a
// queue. A key is free when it is known that etcd has it no more. The lock is held.
func (r *run) free(p Place) string {
	for number := int64(1); ; number++ {
		if number > sameName {
			r.number++
			number = sameName + r.number
		}
		key := r.e.keys(
			p.Request,
		).Entry(
			p.Name,
			int64(r.s.ID()),
			number,
			state.Traits{Shared: p.Shared, Priority: p.Priority},
		)
		if _, used := r.entries[key]; !used && r.barred[key] == 0 {
			return key
		}
	}
}

// leave deletes the entry's key.
func (r *run) leave(x *Entry) {
	r.unwait(x)
	r.outbox.add(op{entry: x})
}

// unwait: the entry need not be granted any more.
func (r *run) unwait(x *Entry) {
	r.mu.Lock()
	b := r.buckets[r.e.queues.BucketOf(x.key)]
	r.mu.Unlock()
	if b != nil {
		b.remove(x)
	}
}

// putOff has the entry's key deleted later: who may not do it now may when access control was repaired,
// and until then the place is in everybody's way.
func (r *run) putOff(x *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stuck = append(r.stuck, x)
}

// leaveAgain tries once more what was put off.
func (r *run) leaveAgain() {
	r.mu.Lock()
	stuck := r.stuck
	r.stuck = nil
	r.mu.Unlock()
	for _, x := range stuck {
		r.outbox.add(op{entry: x})
	}
}

// forget: the entry has no key, and gets none.
func (r *run) forget(x *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, x.key)
	if len(r.entries) == 0 && r.cleared != nil {
		close(r.cleared)
		r.cleared = nil
	}
}

// share has entries that this process has made itself name their keys with its own strings: for
// as long as both are known they are kept once.
func (r *run) share(entries []order.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range entries {
		if x := r.entries[e.Key]; x != nil {
			entries[i].Key = x.key
			if e.Value == x.Value {
				entries[i].Value = x.Value
			}
		}
	}
}

// bar keeps a key from being given out, until unbar.
func (r *run) bar(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.barred[key]++
}

// unbar: no request is under way any more that writes or deletes these keys. One that was to be
// put may have been, unknown to us: it is free when it was seen that it was not.
func (r *run) unbar(resolved []op) {
	if len(resolved) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range resolved {
		if o.enter {
			r.unconfirmed = append(r.unconfirmed, o.entry.key)
		} else {
			r.unbarOne(o.entry.key)
		}
	}
}

// unbarOne is unbar for one reason out of all. The lock is held.
func (r *run) unbarOne(key string) {
	if r.barred[key]--; r.barred[key] == 0 {
		delete(r.barred, key)
	}
}

// sweep looks for keys that may have been put unknown to us, and gives them free when they are gone.
func (r *run) sweep() {
	r.mu.Lock()
	unconfirmed := r.unconfirmed
	r.unconfirmed = nil
	r.mu.Unlock()
	if len(unconfirmed) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(r.ctx), r.e.cfg.RequestTimeout)
	defer cancel()
	for _, key := range unconfirmed {
		gone := r.unknown(ctx, key)
		r.mu.Lock()
		if gone {
			r.unbarOne(key)
		} else {
			r.unconfirmed = append(r.unconfirmed, key)
		}
		r.mu.Unlock()
	}
}

// saw takes note of the raft term of an answer of etcd's.
func (r *run) saw(header *etcdserverpb.ResponseHeader) {
	term := header.GetRaftTerm()
	for old := r.term.Load(); term > old && !r.term.CompareAndSwap(old, term); old = r.term.Load() {
	}
}

// fresh reports whether nobody can count on a place that is gone.
func (r *run) fresh() bool {
	return r.e.cfg.View == nil || r.e.cfg.View.Fresh(r.term.Load())
}

// clear holds an entry that is first until nobody counts on being so still.
func (r *run) clear(x *Entry) {
	if x.Try {
		r.hasty.add(x)
	} else {
		r.patient.add(x)
	}
}

// expelAll has all entries leave; see [Engine.Close].
func (r *run) expelAll(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	entries := slices.Collect(maps.Values(r.entries))
	if len(entries) == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.cleared == nil {
		r.cleared = make(chan struct{})
	}
	cleared := r.cleared
	r.mu.Unlock()
	for _, x := range entries {
		x.expel()
	}
	select {
	case <-cleared:
	case <-r.ctx.Done(): // the session is lost, and all places with it
	case <-ctx.Done():
		return fmt.Errorf("not released: %s: %w", r.names(), context.Cause(ctx))
	}
	return nil
}

// names are those of the entries, a few of them, for people.
func (r *run) names() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 3
	var names []string
	for _, x := range r.entries {
		names = append(names, strconv.Quote(x.Name))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// wait has the entry granted when it is first.
func (r *run) wait(x *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.bucket(x.key); b != nil {
		b.add(x)
	}
}

// bucket is the one that a queue or an entry's key lies in, watched from now on; nil if the
// session is lost. The lock is held.
func (r *run) bucket(key string) *bucket {
	if r.ended {
		return nil
	}
	prefix := r.e.queues.BucketOf(key)
	b := r.buckets[prefix]
	if b == nil {
		b = newBucket(r, prefix)
		r.buckets[prefix] = b
		r.wg.Go(b.run)
	}
	return b
}

// compare looks whether etcd has the keys that it should have on this session's lease: one
// that is missing was deleted out of band, one that is too much was written by
// them.
func (r *run) compare() {
	r.mu.Lock()
	known, used := maps.Clone(r.entries), r.used
	r.mu.Unlock()
	if !used {
		return
	}
	maps.DeleteFunc(known, func(_ string, x *Entry) bool { return !x.stands() })
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(r.ctx), r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := r.e.cfg.Client.TimeToLive(ctx, r.s.ID(), clientv3.WithAttachedKeys())
	if errors.Is(err, rpctypes.ErrPermissionDenied) && !r.denied {
		r.denied = true
		r.e.cfg.Logger.Warn("etcd denies to list the keys on this process's lease: that one of them was deleted by others "+
			"is not noticed; grant READ on all of "+
			r.e.queues.Root(), "error", err)
	}
	if err != nil || resp.TTL < 0 {
		return // the renewal has the word about that
	}
	for _, key := range resp.Keys {
		if _, ok := known[string(key)]; !ok {
			r.unknown(ctx, string(key))
		}
		delete(known, string(key))
	}
	for key, x := range known {
		// What etcd says of a lease can be older than what it says of a key.
		found, err := r.e.cfg.Client.Get(ctx, key, clientv3.WithKeysOnly())
		if err == nil && found.Count == 0 && x.stands() {
			r.e.cfg.Logger.Warn("a key of this process in a queue is gone, and others deleted it", "name", x.Name, "key", key)
			x.vanished()
		}
	}
}

// unknown deletes a key on this session's lease that lies among the queues and is nobody's. It
// reports whether etcd has said that it is not there.
func (r *run) unknown(ctx context.Context, key string) (gone bool) {
	r.mu.Lock()
	_, ours := r.entries[key]
	r.mu.Unlock()
	if _, queued := r.e.queues.QueueOf(key); ours || !queued {
		return false
	}
	found, err := r.e.cfg.Client.Get(ctx, key, clientv3.WithKeysOnly())
	if err != nil || len(found.Kvs) == 0 {
		return err == nil // one of ours that was given up since
	}
	r.mu.Lock()
	_, ours = r.entries[key]
	r.mu.Unlock()
	if ours {
		return false
	}
	r.e.cfg.Logger.Warn("deleting a key on this process's lease that it did not ask for", "key", key)
	// What fails is tried again the next time.
	resp, err := r.e.cfg.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", found.Kvs[0].CreateRevision)).
		Then(clientv3.OpDelete(key)).Commit()
	return err == nil && resp.Succeeded
}

// idleAfter is how long a watch is kept that nobody waits by.
const idleAfter = 10 * time.Second
