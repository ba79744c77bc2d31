package leasequeue

import (
	"context"
	"errors"
	"runtime"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/backoff"
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
	r        *run
	counter  string // key that holds the number of the last batch
	composer *composer
	limit    int // limits the operations in a batch

	number   int64 // of the last batch that was committed or attempted
	modified int64 // ModRevision of the counter; 0 means that it does not exist
	open     bool  // an attempt with that number may still be committed

	delayed  []op // deletions taken beside a batch that cannot be committed at present
	finished []op // not yet reported to the outbox
	barred   []op // their keys may still be written or deleted by such an attempt
}

func newLane(r *run, i int) *lane {
	return &lane{r: r, counter: r.e.counters.Batches(int64(r.s.ID()), i), composer: newComposer(r.s.ID()), limit: mostOps}
}

// run sends batches until the session is lost.
func (l *lane) run() {
	for {
		batch := l.take()
		if len(batch) == 0 {
			select {
			case <-l.r.outbox.wake:
				continue
			case <-l.r.ctx.Done():
				return
			}
		}
		if !l.remove(batch) && !l.commit(batch) {
			return
		}
		// Let the notified goroutines run first: what they request at once can go with the next batch.
		runtime.Gosched()
		l.done()
	}
}

// take returns the next batch.
func (l *lane) take() []op {
	l.r.e.mu.Lock()
	defer l.r.e.mu.Unlock()
	delayed := l.delayed
	l.delayed = nil
	return l.r.outbox.take(l.limit, delayed...)
}

// done reports finished operations to the outbox, so that the operations behind them can start.
func (l *lane) done() {
	l.r.e.mu.Lock()
	defer l.r.e.mu.Unlock()
	l.r.outbox.done(l.finished)
	l.finished = l.finished[:0]
}

// remove sends a batch that is a single deletion. It needs no number, which saves etcd work: its condition is
// on the key itself, so it may be committed late or twice. remove reports whether the outcome is resolved.
func (l *lane) remove(batch []op) bool {
	if len(batch) != 1 || batch[0].enter {
		return false
	}
	o := batch[0]
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	_, err := l.r.e.cfg.Client.Txn(ctx).If(o.entry.Guard()).Then(clientv3.OpDelete(o.entry.key)).Commit()
	switch {
	case err == nil:
		l.r.e.with(func() { l.left(o) })
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		l.r.e.with(func() { l.refuse(o, err) })
	default:
		return false
	}
	return true
}

// commit commits the batch and notifies its entries. It returns false when the session is lost.
func (l *lane) commit(batch []op) bool {
	retry := l.r.e.retry(laneRetry)
	l.number++
	for {
		resp, err := l.send(batch)
		switch {
		case err == nil && resp.Succeeded:
			l.resolved(resp.Header.Revision)
			l.notify(batch, resp)
			return true
		case err == nil:
			// The counter has changed. Either an earlier attempt was committed and its answer lost, or it was
			// changed out of band.
			if l.acknowledged(resp) {
				return l.complete(batch)
			}
			continue
		case l.r.ctx.Err() != nil:
			return false
		}
		committed, unresolved := l.learn(err)
		if committed {
			return l.complete(batch)
		}
		denied := errors.Is(err, rpctypes.ErrPermissionDenied)
		tooMuch := errors.Is(err, rpctypes.ErrTooManyOps) || tooLarge(err)
		switch {
		case denied && l.open && !errors.Is(unresolved, rpctypes.ErrPermissionDenied), tooMuch && l.open:
			// The outcome of earlier attempts must be known first.
		case denied && l.open:
			// Even that question is denied, so everything is denied.
			l.r.e.with(func() {
				for _, o := range batch {
					l.refuse(o, err)
				}
			})
			return true
		case (denied || tooMuch) && len(batch) > 1:
			// Halve, so that a refusal affects only the entries that cause it.
			half := len(batch) / 2
			if tooMuch {
				l.limit = max(2, l.limit/2)
			}
			return l.commit(batch[:half]) && l.commit(batch[half:])
		case denied, tooMuch:
			l.r.e.with(func() { l.refuse(batch[0], err) })
			return true
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			l.r.s.Check() // it finds out the reason
		case errors.Is(err, rpctypes.ErrNoSpace):
			if batch = l.drainBatch(batch); len(batch) == 0 {
				return true
			}
		}
		if !wait.For(l.r.ctx, retry.Next()) {
			return false
		}
	}
}

// send makes one attempt to commit the batch.
func (l *lane) send(batch []op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	defer l.composer.forget()
	return l.r.e.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(l.counter), "=", l.modified)).
		Then(l.composer.compose(l.counter, l.number, batch)...).Else(clientv3.OpGet(l.counter)).Commit()
}

// apart limits the nested transactions with a condition of their own in one transaction. It leaves room below
// etcd's limit.
const apart = levelOps / 2

// drainBatch releases leaving entries of the batch and of the outbox while no key can be created. It returns
// the rest of the batch.
func (l *lane) drainBatch(batch []op) []op {
	l.r.e.with(func() {
		l.delayed = append(l.delayed, l.r.outbox.leave(apart-len(l.delayed), l.r.outbox.apart(l.delayed))...)
	})
	l.delayed = l.release(l.delayed)
	return l.release(batch)
}

// release deletes the keys of leaving entries in batch. The deletions carry no number, but each has its own
// key's condition, so they may be committed late. release returns the rest of the batch.
func (l *lane) release(batch []op) []op {
	var leaving, rest []op
	limit := min(apart, max(1, l.limit/2))
	for _, o := range batch {
		if o.enter || len(leaving) == limit {
			rest = append(rest, o)
		} else {
			leaving = append(leaving, o)
		}
	}
	if len(leaving) == 0 {
		return batch
	}
	return append(l.releaseAll(leaving), rest...)
}

// releaseAll deletes the keys in one transaction. It returns the operations that must be tried again.
func (l *lane) releaseAll(leaving []op) []op {
	ops := make([]clientv3.Op, len(leaving))
	for i, o := range leaving {
		ops[i] = clientv3.OpTxn([]clientv3.Cmp{o.entry.Guard()}, []clientv3.Op{clientv3.OpDelete(o.entry.key)}, nil)
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	_, err := l.r.e.cfg.Client.Txn(ctx).Then(ops...).Commit()
	denied := errors.Is(err, rpctypes.ErrPermissionDenied)
	switch half := len(leaving) / 2; {
	case err == nil:
		l.r.e.with(func() {
			for _, o := range leaving {
				l.left(o)
			}
		})
		return nil
	case denied && half > 0:
		again := l.releaseAll(leaving[:half])
		return append(again, l.releaseAll(leaving[half:])...)
	case denied:
		l.r.e.with(func() { l.refuse(leaving[0], err) })
		return nil
	case errors.Is(err, rpctypes.ErrTooManyOps):
		l.limit = max(2, l.limit/2)
	}
	return leaving
}

// left records that the key was deleted. The caller holds Engine.mu.
func (l *lane) left(o op) {
	o.entry.q.denied = false
	l.finish(o)
	o.entry.turn(o.entry.now().Deleted())
}

// finish records that the operation is finished. If an attempt that puts or deletes the key may still be
// committed, the key stays reserved until that is resolved. The caller holds Engine.mu.
func (l *lane) finish(o op) {
	l.finished = append(l.finished, o)
	if l.open {
		l.barred = append(l.barred, o)
		l.r.keyring.bar(o.entry.key)
	}
}

// entered records that the key was created at revision. The caller holds Engine.mu.
func (l *lane) entered(o op, revision int64, first bool) {
	o.entry.q.denied = false
	l.finished = append(l.finished, o)
	o.entry.created(revision, first)
}

// notify passes the results of a committed batch on to its entries.
func (l *lane) notify(batch []op, resp *clientv3.TxnResponse) {
	l.r.saw(resp.Header)
	all := answers(resp)
	l.r.e.with(func() {
		for _, o := range batch {
			if o.enter {
				found := (*clientv3.GetResponse)(all[1].GetResponseRange())
				l.entered(o, resp.Header.Revision, found.Count == 1 || o.entry.Shared && ahead(o.entry, found))
			} else {
				l.left(o)
			}
			all = all[o.cost():]
		}
	})
}

// refuse handles a refusal by etcd: it ends an entry that cannot be created, and schedules a deletion for
// later. The key stays in use then. The caller holds Engine.mu.
func (l *lane) refuse(o op, err error) {
	l.finish(o)
	x := o.entry
	x.q.denied = x.q.denied || errors.Is(err, rpctypes.ErrPermissionDenied)
	if o.enter {
		x.turn(x.now().NotCreated(err))
		return
	}
	if x.now().Refused == nil {
		l.r.e.later(func() {
			l.r.e.cfg.Logger.Warn("etcd denied deleting a queue entry, retrying until the session ends",
				"name", x.Name, "key", x.key, "error", err)
		})
	}
	x.turn(x.now().NotDeleted(err))
	l.r.putOff(x)
}

// ahead reports whether found, a read of the entry's queue, shows the entry as first or as a holder.
func ahead(x *Entry, found *clientv3.GetResponse) bool {
	if !x.Shared {
		return len(found.Kvs) > 0 && string(found.Kvs[0].Key) == x.key
	}
	return order.Queue{}.Read(1, entriesOf(found)).Holds(x.key)
}
