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

// laneRetry is how long to wait after a batch, or a read of who is first, that etcd did not answer.
var laneRetry = backoff.Policy{First: 10 * time.Millisecond, Last: time.Second}

// lane sends batches of operations one after the other. Each batch is committed under the
// condition that the one before it is the last that was committed, and puts down its own number. So a
// batch without an answer is resolved for good by another one: either its number is there, or it can
// never be any more.
type lane struct {
	r        *run
	counter  string // the key that has the number of the last batch
	composer *composer
	limit    int // of operations in a batch

	number   int64 // of the last batch that was committed, or tried
	modified int64 // ModRevision of the counter; 0: it is not there
	open     bool  // an attempt of that number may still be committed

	delayed  []op // who leaves, taken beside a batch that cannot be committed at present
	finished []op // of which the outbox is to be notified
	barred   []op // whose keys such an attempt may still write or delete
}

func newLane(r *run, i int) *lane {
	return &lane{r: r, counter: r.e.counters.Batches(int64(r.s.ID()), i), composer: newComposer(r.s.ID()), limit: mostOps}
}

// run sends what there is, until the session is lost.
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
		// Who was notified may want something at once: it goes with the next batch, if it may
		// run before that is taken.
		runtime.Gosched()
		l.done()
	}
}

// take is the next batch.
func (l *lane) take() []op {
	l.r.e.mu.Lock()
	defer l.r.e.mu.Unlock()
	delayed := l.delayed
	l.delayed = nil
	return l.r.outbox.take(l.limit, delayed...)
}

// done lets those follow who wait for what is finished.
func (l *lane) done() {
	l.r.e.mu.Lock()
	defer l.r.e.mu.Unlock()
	l.r.outbox.done(l.finished)
	l.finished = l.finished[:0]
}

// remove sends a batch that is one deletion without a number, which is less work for etcd: under the
// key's own condition it may be committed late, or twice. It reports whether that resolved it.
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

// commit commits the batch, and notifies its entries. It returns false when the session is lost.
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
			// The counter is not as it was left. An earlier attempt was committed, though nobody
			// said so; or it was changed out of band.
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
			// First it must be known what came of the attempts before.
		case denied && l.open:
			// Not even that may be asked: all is denied to all.
			l.r.e.with(func() {
				for _, o := range batch {
					l.refuse(o, err)
				}
			})
			return true
		case (denied || tooMuch) && len(batch) > 1:
			// What was refused is refused to those alone whom it concerns.
			half := len(batch) / 2
			if tooMuch {
				l.limit = max(2, l.limit/2)
			}
			return l.commit(batch[:half]) && l.commit(batch[half:])
		case denied, tooMuch:
			l.r.e.with(func() { l.refuse(batch[0], err) })
			return true
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			l.r.s.Check() // it finds out why
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

// send makes one attempt.
func (l *lane) send(batch []op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(l.r.ctx), l.r.e.cfg.RequestTimeout)
	defer cancel()
	defer l.composer.forget()
	return l.r.e.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(l.counter), "=", l.modified)).
		Then(l.composer.compose(l.counter, l.number, batch)...).Else(clientv3.OpGet(l.counter)).Commit()
}

// apart is how many conditions of their own etcd takes in a transaction, with room to spare.
const apart = levelOps / 2

// drainBatch releases who leaves, in the batch and behind it, while nobody can enter. It returns
// the rest of the batch.
func (l *lane) drainBatch(batch []op) []op {
	l.r.e.with(func() {
		l.delayed = append(l.delayed, l.r.outbox.leave(apart-len(l.delayed), l.r.outbox.apart(l.delayed))...)
	})
	l.delayed = l.release(l.delayed)
	return l.release(batch)
}

// release deletes the keys of those who leave, without a number, so each under its own
// condition: it may be committed late. It returns the rest of the batch.
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

// releaseAll is release of those who leave, in one transaction. It returns those that have to be tried again.
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

// left: the key was deleted. The lock is held.
func (l *lane) left(o op) {
	o.entry.q.denied = false
	l.finish(o)
	o.entry.turn(o.entry.now().Deleted())
}

// finish: the operation is done with. If an attempt may still be committed that puts or deletes the key,
// nobody gets it until that is resolved. The lock is held.
func (l *lane) finish(o op) {
	l.finished = append(l.finished, o)
	if l.open {
		l.barred = append(l.barred, o)
		l.r.keyring.bar(o.entry.key)
	}
}

// entered: the key was created at that revision. The lock is held.
func (l *lane) entered(o op, revision int64, first bool) {
	o.entry.q.denied = false
	l.finished = append(l.finished, o)
	o.entry.created(revision, first)
}

// notify reports to the entries what came of a batch that was committed.
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

// refuse ends an entry that etcd refuses to write, or puts off to delete it; its key is not
// free, then. The lock is held.
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
			l.r.e.cfg.Logger.Warn("etcd refuses that a place in a queue is given up; it is tried again until the session ends",
				"name", x.Name, "key", x.key, "error", err)
		})
	}
	x.turn(x.now().NotDeleted(err))
	l.r.putOff(x)
}

// ahead reports whether the entry is first, as its own transaction has seen it.
func ahead(x *Entry, found *clientv3.GetResponse) bool {
	if !x.Shared {
		return len(found.Kvs) > 0 && string(found.Kvs[0].Key) == x.key
	}
	return order.Queue{}.Read(1, entriesOf(found)).Holds(x.key)
}
