package leasequeue

import (
	"context"
	"errors"
	"runtime"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/wait"
)

// laneRetry is the pause after a batch, or a read of queues, that failed.
var laneRetry = backoff.Policy{First: 10 * time.Millisecond, Last: time.Second}

// lane sends batches of operations one after the other. Each batch writes its number to the lane's counter, on
// the condition that the counter is as the batch before left it. If an answer is lost, a later transaction
// resolves the outcome for good: either the counter holds the batch's number, or the batch can never be
// committed any more.
type lane struct {
	r          *sessionRun
	counter    string // key that holds the number of the last batch
	composer   *composer
	batchLimit int // limits the operations in a batch

	number      int64 // of the last batch that was committed or attempted
	modified    int64 // ModRevision of the counter; 0 means that it does not exist
	attemptOpen bool  // an attempt with that number may still be committed

	delayed  []queueOp // deletions taken beside a batch that cannot be committed at present
	finished []queueOp // not yet reported to the outbox
	barred   []queueOp // their keys may still be written or deleted by such an attempt
}

func newLane(r *sessionRun, i int) *lane {
	return &lane{r: r, counter: r.e.counters.BatchCounter(int64(r.session.ID()), i),
		composer: newComposer(r.session.ID()), batchLimit: maxBatchOps}
}

// run sends batches until the session is lost.
func (l *lane) run() {
	for {
		batch := l.takeBatch()
		if len(batch) == 0 {
			select {
			case <-l.r.outbox.wake:
				continue
			case <-l.r.ctx.Done():
				return
			}
		}
		// A single deletion needs no number, which saves etcd work.
		deleted := len(batch) == 1 && !batch[0].creates && len(l.deleteKeys(batch)) == 0
		if !deleted && l.commitBatch(batch) != nil {
			return
		}
		// Let the notified goroutines run first: what they request at once can go with the next batch.
		runtime.Gosched()
		l.reportFinished()
	}
}

// takeBatch returns the next batch.
func (l *lane) takeBatch() []queueOp {
	l.r.e.mu.Lock()
	defer l.r.e.mu.Unlock()
	delayed := l.delayed
	l.delayed = nil
	return l.r.outbox.takeBatch(l.batchLimit, delayed...)
}

// reportFinished reports finished operations to the outbox, so that the operations behind them can start.
func (l *lane) reportFinished() {
	l.r.e.mu.Lock()
	defer l.r.e.mu.Unlock()
	l.r.outbox.finishOps(l.finished)
	l.finished = l.finished[:0]
}

// commitBatch commits the batch and notifies its entries. If etcd refuses some of it, it is halved, so that the refusal
// affects only these. It returns an error when the session is lost.
func (l *lane) commitBatch(batch []queueOp) error {
	return commitInParts(batch, len(batch), l.commitPart)
}

// commitPart is commitBatch for a batch or a part of one. It returns what is to be halved.
func (l *lane) commitPart(batch []queueOp) (refused []queueOp, _ error) {
	retry := l.r.e.newBackoff(laneRetry)
	l.number++
	for {
		resp, err := l.sendBatch(batch)
		switch {
		case err == nil && resp.Succeeded:
			l.setCounterRevision(resp.Header.Revision)
			l.notifyEntries(batch, resp)
			return nil, nil
		case err == nil:
			// The counter has changed. Either an earlier attempt was committed and its answer lost, or it was
			// changed out of band.
			if l.adoptTxnCounter(resp) {
				return nil, l.completeBatch(batch)
			}
			continue
		case l.r.ctx.Err() != nil:
			return nil, context.Cause(l.r.ctx)
		}
		committed, unresolved := l.resolveFailure(err)
		if committed {
			return nil, l.completeBatch(batch)
		}
		denied := errors.Is(err, rpctypes.ErrPermissionDenied)
		switch allDenied := denied && errors.Is(unresolved, rpctypes.ErrPermissionDenied); {
		case halvable(err) && l.attemptOpen && !allDenied:
			// The outcome of earlier attempts must be known first. If even that question is denied, everything is.
		case halvable(err) && len(batch) > 1 && !allDenied:
			return l.halve(batch, err), nil
		case halvable(err):
			l.refuseOps(batch, err)
			return nil, nil
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			l.r.session.RequestRenewal() // it finds out the reason
		case errors.Is(err, rpctypes.ErrNoSpace):
			if batch = l.drainBatch(batch); len(batch) == 0 {
				return nil, nil
			}
		}
		if !wait.For(l.r.ctx, retry.Next()) {
			return nil, context.Cause(l.r.ctx)
		}
	}
}

// halve returns the batch, to be sent in two halves. If it was too large, the next batches are smaller.
func (l *lane) halve(batch []queueOp, err error) []queueOp {
	if !errors.Is(err, rpctypes.ErrPermissionDenied) {
		l.batchLimit = max(2, l.batchLimit/2)
	}
	return batch
}

// refuseOps handles etcd's refusal of all these operations.
func (l *lane) refuseOps(batch []queueOp, err error) {
	l.r.e.withLock(func() {
		for _, o := range batch {
			l.refuseOp(o, err)
		}
	})
}

// sendBatch makes one attempt to commit the batch.
func (l *lane) sendBatch(batch []queueOp) (*clientv3.TxnResponse, error) {
	defer l.composer.dropKeys()
	return l.commitNext(l.composer.compose(l.counter, l.number, batch)...)
}

// maxNestedTxns limits the nested transactions with a condition of their own in one transaction. It leaves room below
// etcd's limit.
const maxNestedTxns = maxTxnOps / 2

// drainBatch releases leaving entries of the batch and of the outbox while no key can be created. It returns
// the rest of the batch.
func (l *lane) drainBatch(batch []queueOp) []queueOp {
	l.r.e.withLock(func() {
		l.delayed = append(l.delayed, l.r.outbox.takeDeletions(maxNestedTxns-len(l.delayed),
			l.r.outbox.nextDeniedQueues(l.delayed))...)
	})
	l.delayed = l.deleteLeaving(l.delayed)
	return l.deleteLeaving(batch)
}

// deleteLeaving deletes the keys of leaving entries in batch, as deleteKeys does. It returns the rest of the batch.
func (l *lane) deleteLeaving(batch []queueOp) []queueOp {
	var leaving, rest []queueOp
	limit := min(maxNestedTxns, max(1, l.batchLimit/2))
	for _, o := range batch {
		if o.creates || len(leaving) == limit {
			rest = append(rest, o)
		} else {
			leaving = append(leaving, o)
		}
	}
	if len(leaving) == 0 {
		return batch
	}
	return append(l.deleteKeys(leaving), rest...)
}

// deleteKeys deletes the keys of leaving entries without a number: each deletion has its own key's condition, so it may
// be committed late or twice. It returns the operations that must be tried again.
func (l *lane) deleteKeys(leaving []queueOp) (again []queueOp) {
	_ = commitInParts(leaving, len(leaving), func(part []queueOp) (refused []queueOp, _ error) {
		switch err := l.sendDeletions(part); {
		case err == nil:
			l.r.e.withLock(func() {
				for _, o := range part {
					l.keyDeleted(o)
				}
			})
		case halvable(err) && len(part) > 1:
			return l.halve(part, err), nil
		case errors.Is(err, rpctypes.ErrPermissionDenied):
			l.refuseOps(part, err)
		default:
			again = append(again, part...)
		}
		return nil, nil
	})
	return again
}

// sendDeletions makes one attempt to delete the keys in one transaction.
func (l *lane) sendDeletions(part []queueOp) error {
	var when []clientv3.Cmp
	var ops []clientv3.Op
	for _, o := range part {
		guard, deletion := []clientv3.Cmp{o.entry.Guard()}, []clientv3.Op{clientv3.OpDelete(o.entry.key)}
		if len(part) == 1 {
			when, ops = guard, deletion
		} else {
			ops = append(ops, clientv3.OpTxn(guard, deletion, nil))
		}
	}
	_, err := l.r.commitTxn(l.r.ctx, when, ops, nil)
	return err
}

// keyDeleted records that the key was deleted. The caller holds Engine.mu.
func (l *lane) keyDeleted(o queueOp) {
	o.entry.q.denied = false
	l.finishOp(o)
	o.entry.applyChange(o.entry.state.Load().KeyDeleted())
}

// finishOp records that the operation is finished. If an attempt that puts or deletes the key may still be
// committed, the key stays reserved until that is resolved. The caller holds Engine.mu.
func (l *lane) finishOp(o queueOp) {
	l.finished = append(l.finished, o)
	if l.attemptOpen {
		l.barred = append(l.barred, o)
		l.r.keyring.barKey(o.entry.key)
	}
}

// keyCreated records that the key was created at revision. The caller holds Engine.mu.
func (l *lane) keyCreated(o queueOp, revision int64, first bool) {
	o.entry.q.denied = false
	l.finished = append(l.finished, o)
	o.entry.applyInSession(func(p entrystate.State, s entrystate.Session) (entrystate.State, entrystate.Orders) {
		return p.KeyCreated(revision, first, s)
	})
}

// notifyEntries passes the results of a committed batch on to its entries.
func (l *lane) notifyEntries(batch []queueOp, resp *clientv3.TxnResponse) {
	all := batchResponses(resp)
	l.r.e.withLock(func() {
		for _, o := range batch {
			if o.creates {
				found := (*clientv3.GetResponse)(all[1].GetResponseRange())
				l.keyCreated(o, resp.Header.Revision, found.Count == 1 || o.entry.Shared && ahead(o.entry, found))
			} else {
				l.keyDeleted(o)
			}
			all = all[o.opCount():]
		}
	})
}

// refuseOp handles a refusal by etcd: it ends an entry that cannot be created, and schedules a deletion for
// later. The key stays in use then. The caller holds Engine.mu.
func (l *lane) refuseOp(o queueOp, err error) {
	l.finishOp(o)
	x := o.entry
	x.q.denied = x.q.denied || errors.Is(err, rpctypes.ErrPermissionDenied)
	if o.creates {
		x.applyChange(x.state.Load().CreationRefused(err))
		return
	}
	if x.state.Load().Refused == nil {
		l.r.e.queueNotice(func() {
			l.r.e.cfg.Logger.Warn("etcd denied deleting a queue entry, retrying until the session ends",
				"name", x.Name, "key", x.key, "error", err)
		})
	}
	x.applyChange(x.state.Load().DeletionRefused(err))
	l.r.postponeDeletion(x)
}

// ahead reports whether found, a read of the entry's queue, shows the entry as first or as a holder.
func ahead(x *Entry, found *clientv3.GetResponse) bool {
	if !x.Shared {
		return len(found.Kvs) > 0 && string(found.Kvs[0].Key) == x.key
	}
	return order.Queue{}.ApplyRead(1, parseEntries(found)).HoldsLock(x.key)
}
