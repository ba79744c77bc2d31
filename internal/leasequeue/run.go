package leasequeue

import (
	"context"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/wait"
)

// laneCount limits the batches in flight. Few lanes make large batches, and the larger a batch, the less work per
// operation for etcd and this process. With more than one, a batch can travel while another is written to disk.
const laneCount = 3

// sessionRun holds all that belongs to one session.
type sessionRun struct {
	e              *Engine
	session        *etcdsession.Session
	ctx            context.Context
	cancel         context.CancelFunc
	unsubscribe    func()      // from changes of the session
	sessionChanged wait.Signal // receives when the session has changed
	wg             sync.WaitGroup
	term           atomic.Uint64 // newest raft term of etcd seen in an answer
	lanes          [laneCount]*lane
	listingDenied  bool // etcd denied listing the keys on the lease; used by repairLoop alone

	// Guarded by Engine.mu:

	outbox  *outbox
	keyring keyring
	entries map[string]*Entry // by key
	buckets map[string]*bucket
	// waitConfirmer serves entries that wait, tryConfirmer those with Try.
	waitConfirmer, tryConfirmer *confirmer
	lanesStarted                bool // an entry was added, so the lanes run
	ended                       bool
	stuck                       []*Entry // entries that etcd has refused to delete since the last tick
}

func newSessionRun(e *Engine, s *etcdsession.Session) *sessionRun {
	r := &sessionRun{e: e, session: s, sessionChanged: wait.NewSignal(), outbox: newOutbox(), keyring: newKeyring(),
		entries: map[string]*Entry{}, buckets: map[string]*bucket{}}
	r.ctx, r.cancel = context.WithCancel(s.Context())
	for i := range r.lanes {
		r.lanes[i] = newLane(r, i)
	}
	r.waitConfirmer, r.tryConfirmer = newConfirmer(r, true), newConfirmer(r, false)
	r.unsubscribe = s.OnChange(r.sessionChanged.Send)
	return r
}

// serveSession follows the session until it is lost or ctx ends.
func (r *sessionRun) serveSession(ctx context.Context) {
	defer context.AfterFunc(ctx, r.cancel)()
	r.wg.Go(r.repairLoop)
	for {
		select {
		case <-r.sessionChanged:
			r.recheckWaiting()
		case <-r.ctx.Done():
			return
		}
	}
}

// stopAndWait ends all goroutines of the run and waits for them.
func (r *sessionRun) stopAndWait() {
	r.unsubscribe()
	r.cancel()
	r.wg.Wait()
}

// recheckWaiting makes all waiting entries check again whether they can be granted. It is called when the usability of
// the session has changed.
func (r *sessionRun) recheckWaiting() {
	r.e.mu.Lock()
	defer r.e.unlock()
	for _, b := range r.buckets {
		b.recheckWaiting()
	}
	r.e.signalChange()
}

// addEntry adds the entry, which is decided later. The caller holds Engine.mu, and the session is not lost.
func (r *sessionRun) addEntry(x *Entry) {
	if !r.lanesStarted {
		r.lanesStarted = true
		for _, l := range r.lanes {
			r.wg.Go(l.run)
		}
		if r.e.cfg.View != nil {
			r.wg.Go(r.waitConfirmer.run)
			r.wg.Go(r.tryConfirmer.run)
		}
	}
	x.run = r
	x.key, x.queue = r.chooseKey(x)
	x.state.Store(&entrystate.State{Try: x.Try})
	r.entries[x.key] = x
	x.q.entries++
	r.outbox.addOp(queueOp{entry: x, creates: true})
}

// removeEntry removes an entry once its key is gone or will never be created. The caller holds Engine.mu.
func (r *sessionRun) removeEntry(x *Entry) {
	delete(r.entries, x.key)
	x.q.entryRemoved()
}

// shareStrings makes e use the key and value strings of this process's own entry, so that each is kept in memory once.
// The caller holds Engine.mu.
func (r *sessionRun) shareStrings(e *order.Entry) {
	if x := r.entries[e.Key]; x != nil {
		e.Key = x.key
		if e.Value == x.Value {
			e.Value = x.Value
		}
	}
}

// registerWaiter registers the entry for a notification when it is first in its queue. The caller holds Engine.mu.
func (r *sessionRun) registerWaiter(x *Entry) {
	if b := r.bucketFor(x.q, x.key); b != nil {
		b.addWaiter(x)
	}
}

// unregisterWaiter undoes registerWaiter. The caller holds Engine.mu.
func (r *sessionRun) unregisterWaiter(x *Entry) {
	if b := r.buckets[x.q.keys.BucketOf(x.key)]; b != nil {
		b.removeWaiter(x)
	}
}

// bucketFor returns the bucket of a queue or of an entry's key, and starts its watch if needed. It returns nil if
// the session is lost. The caller holds Engine.mu.
func (r *sessionRun) bucketFor(q *Queues, key string) *bucket {
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

// recordTerm records the raft term of an answer from etcd.
func (r *sessionRun) recordTerm(header *etcdserverpb.ResponseHeader) {
	term := header.GetRaftTerm()
	for old := r.term.Load(); term > old && !r.term.CompareAndSwap(old, term); old = r.term.Load() {
	}
}

// viewFresh reports whether it is certain that no former holder relies on a key that is gone.
func (r *sessionRun) viewFresh() bool {
	return r.e.cfg.View == nil || r.e.cfg.View.Fresh(r.term.Load())
}

// holdBack holds back an entry that is first until no former holder can rely on its own any more. The caller holds
// Engine.mu.
func (r *sessionRun) holdBack(x *Entry) {
	if x.Try {
		r.tryConfirmer.addEntry(x)
	} else {
		r.waitConfirmer.addEntry(x)
	}
}
