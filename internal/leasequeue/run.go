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

// lanes limits the batches in flight. Few lanes make large batches, and the larger a batch, the less work per
// operation for etcd and this process. With more than one, a batch can travel while another is written to disk.
const lanes = 3

// run holds all that belongs to one session.
type run struct {
	e           *Engine
	s           *etcdsession.Session
	ctx         context.Context
	cancel      context.CancelFunc
	unsubscribe func()        // from changes of the session
	poked       chan struct{} // receives when the session has changed
	wg          sync.WaitGroup
	term        atomic.Uint64 // newest raft term of etcd seen in an answer
	lanes       [lanes]*lane
	denied      bool // etcd denied listing the keys on the lease; used by tend alone

	// Guarded by Engine.mu:

	outbox  *outbox
	keyring keyring
	entries map[string]*Entry // by key
	buckets map[string]*bucket
	// patient serves entries that wait, hasty those with Try.
	patient, hasty *confirmer
	used           bool // an entry was added, so the lanes run
	ended          bool
	stuck          []*Entry // entries that etcd has refused to delete since the last tick
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

// poke wakes the receiver of wake, now or at its next receive.
func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// serve follows the session until it is lost or ctx ends.
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

// join ends all goroutines of the run and waits for them.
func (r *run) join() {
	r.unsubscribe()
	r.cancel()
	r.wg.Wait()
}

// again makes all waiting entries check again whether they can be granted. It is called when the usability of
// the session has changed.
func (r *run) again() {
	r.e.mu.Lock()
	defer r.e.unlock()
	for _, b := range r.buckets {
		b.again()
	}
	r.e.change()
}

// enter adds the entry, which settles later. The caller holds Engine.mu, and the session is not lost.
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
	x.snapshot.Store(&snapshot{State: entrystate.State{Try: x.Try}})
	r.entries[x.key] = x
	x.q.entries++
	r.outbox.add(op{entry: x, enter: true})
}

// forget removes an entry once its key is gone or will never be created. The caller holds Engine.mu.
func (r *run) forget(x *Entry) {
	delete(r.entries, x.key)
	x.q.left()
}

// share makes e use the key and value strings of this process's own entry, so that each is kept in memory once.
// The caller holds Engine.mu.
func (r *run) share(e *order.Entry) {
	if x := r.entries[e.Key]; x != nil {
		e.Key = x.key
		if e.Value == x.Value {
			e.Value = x.Value
		}
	}
}

// list registers the entry for a notification when it is first in its queue. The caller holds Engine.mu.
func (r *run) list(x *Entry) {
	if b := r.bucket(x.q, x.key); b != nil {
		b.add(x)
	}
}

// unlist undoes list. The caller holds Engine.mu.
func (r *run) unlist(x *Entry) {
	if b := r.buckets[x.q.keys.BucketOf(x.key)]; b != nil {
		b.remove(x)
	}
}

// bucket returns the bucket of a queue or of an entry's key, and starts its watch if needed. It returns nil if
// the session is lost. The caller holds Engine.mu.
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

// saw records the raft term of an answer from etcd.
func (r *run) saw(header *etcdserverpb.ResponseHeader) {
	term := header.GetRaftTerm()
	for old := r.term.Load(); term > old && !r.term.CompareAndSwap(old, term); old = r.term.Load() {
	}
}

// fresh reports whether it is certain that no former holder relies on a key that is gone.
func (r *run) fresh() bool { return r.e.cfg.View == nil || r.e.cfg.View.Fresh(r.term.Load()) }

// clear holds back an entry that is first until no former holder can rely on its own any more. The caller holds
// Engine.mu.
func (r *run) clear(x *Entry) {
	if x.Try {
		r.hasty.add(x)
	} else {
		r.patient.add(x)
	}
}
