package leasequeue

import (
	"context"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/leasequeue/order"
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
	unsubscribe func()        // from changes of the session
	poked       chan struct{} // the session has changed
	wg          sync.WaitGroup
	term        atomic.Uint64 // of raft at etcd, the newest that an answer was of
	lanes       [lanes]*lane
	denied      bool // etcd denied to list the keys on the lease; of the one that serves

	// With the engine's lock held:

	outbox  *outbox
	keyring keyring
	entries map[string]*Entry // by key
	buckets map[string]*bucket
	// patient are held for who waits, hasty for who only tries.
	patient, hasty *clearing
	used           bool // somebody has entered: there are lanes, and something to look after
	ended          bool
	stuck          []*Entry // whose deletion etcd has refused since the last tick
}

func newRun(e *Engine, s *etcdsession.Session) *run {
	r := &run{e: e, s: s, poked: make(chan struct{}, 1), outbox: newOutbox(), keyring: newKeyring(),
		entries: map[string]*Entry{}, buckets: map[string]*bucket{}}
	r.ctx, r.cancel = context.WithCancel(s.Context())
	for i := range r.lanes {
		r.lanes[i] = newLane(r, i)
	}
	r.patient, r.hasty = newClearing(r, true), newClearing(r, false)
	r.unsubscribe = s.OnChange(func() { poke(r.poked) })
	return r
}

// poke wakes the one that waits for it, now or the next time.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// serve follows the session until it is lost, or ctx ends.
func (r *run) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, r.cancel)()
	r.wg.Go(r.tend)
	for {
		select {
		case <-r.poked:
			r.again()
		case <-r.ctx.Done():
			return
		}
	}
}

// join ends all that was started, and waits for that.
func (r *run) join() {
	r.unsubscribe()
	r.cancel()
	r.wg.Wait()
}

// again makes all who wait look whether they hold: the session may be acted on again, or not any
// more.
func (r *run) again() {
	r.e.mu.Lock()
	defer r.e.unlock()
	for _, b := range r.buckets {
		b.again()
	}
	r.e.change()
}

// enter queues; the entry settles later. The lock is held, and the session not lost.
func (r *run) enter(x *Entry) {
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
	x.run = r
	x.key, x.queue = r.free(x)
	x.snapshot.Store(&snapshot{Place: entrystate.Place{Try: x.Try}})
	r.entries[x.key] = x
	x.q.entries++
	r.outbox.add(op{entry: x, enter: true})
}

// forget: the entry has no key, and gets none. The lock is held.
func (r *run) forget(x *Entry) {
	delete(r.entries, x.key)
	x.q.left()
}

// share has an entry that this process has made itself name its key with its own string: for
// as long as both are known it is kept once. The lock is held.
func (r *run) share(e *order.Entry) {
	if x := r.entries[e.Key]; x != nil {
		e.Key = x.key
		if e.Value == x.Value {
			e.Value = x.Value
		}
	}
}

// list has the entry notified when it is first in its queue. The lock is held.
func (r *run) list(x *Entry) {
	if b := r.bucket(x.q, x.key); b != nil {
		b.add(x)
	}
}

// unlist is the end of that. The lock is held.
func (r *run) unlist(x *Entry) {
	if b := r.buckets[x.q.keys.BucketOf(x.key)]; b != nil {
		b.remove(x)
	}
}

// bucket is the one that a queue or an entry's key lies in, watched from now on; nil if the
// session is lost. The lock is held.
func (r *run) bucket(q *Queues, key string) *bucket {
	if r.ended {
		return nil
	}
	prefix := q.keys.BucketOf(key)
	b := r.buckets[prefix]
	if b == nil {
		b = newBucket(r, prefix, q.keys.RequestsIn(prefix))
		r.buckets[prefix] = b
		r.wg.Go(b.run)
	}
	return b
}

// saw takes note of the raft term of an answer of etcd's.
func (r *run) saw(header *etcdserverpb.ResponseHeader) {
	term := header.GetRaftTerm()
	for old := r.term.Load(); term > old && !r.term.CompareAndSwap(old, term); old = r.term.Load() {
	}
}

// fresh reports whether nobody can count on a place that is gone.
func (r *run) fresh() bool { return r.e.cfg.View == nil || r.e.cfg.View.Fresh(r.term.Load()) }

// clear holds an entry that is first until nobody counts on being so still. The lock is held.
func (r *run) clear(x *Entry) {
	if x.Try {
		r.hasty.add(x)
	} else {
		r.patient.add(x)
	}
}
