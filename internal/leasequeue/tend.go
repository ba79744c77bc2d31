package leasequeue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/wait"
)

// tend looks after what stands on the session, now and then.
func (r *run) tend() {
	for wait.For(r.ctx, r.s.TTL()/3) {
		r.leaveAgain()
		r.sweep()
		r.compare()
	}
}

// putOff has the entry's key deleted later: who may not do it now may when access control was repaired,
// and until then the place is in everybody's way. The lock is held.
func (r *run) putOff(x *Entry) { r.stuck = append(r.stuck, x) }

// leaveAgain tries once more what was put off.
func (r *run) leaveAgain() {
	r.e.mu.Lock()
	defer r.e.unlock()
	stuck := r.stuck
	r.stuck = nil
	for _, x := range stuck {
		r.outbox.add(op{entry: x})
	}
}

// sweep looks for keys that may have been put unknown to us, and gives them free when they are gone.
func (r *run) sweep() {
	r.e.mu.Lock()
	unconfirmed := r.keyring.takeUnconfirmed()
	r.e.mu.Unlock()
	if len(unconfirmed) == 0 {
		return
	}
	gone := r.unknown(unconfirmed)
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	for _, key := range unconfirmed {
		r.keyring.confirmed(key, gone[key])
	}
}

// compare looks whether etcd has the keys that it should have on this session's lease: one
// that is missing was deleted out of band, one that is too much was written by
// them.
func (r *run) compare() {
	r.e.mu.Lock()
	known, used := maps.Clone(r.entries), r.used
	r.e.mu.Unlock()
	if !used {
		return
	}
	maps.DeleteFunc(known, func(_ string, x *Entry) bool { return !x.now().Expected() })
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(r.ctx), r.e.cfg.RequestTimeout)
	resp, err := r.e.cfg.Client.TimeToLive(ctx, r.s.ID(), clientv3.WithAttachedKeys())
	cancel()
	if errors.Is(err, rpctypes.ErrPermissionDenied) && !r.denied {
		r.denied = true
		r.e.cfg.Logger.Warn("etcd denies to list the keys on this process's lease: that one of them was deleted by others "+
			"is not noticed; grant READ on all of "+strings.Join(r.e.roots(), " and "), "error", err)
	}
	if err != nil || resp.TTL < 0 {
		return // the renewal has the word about that
	}
	var unknown []string
	for _, key := range resp.Keys {
		if _, ok := known[string(key)]; !ok {
			unknown = append(unknown, string(key))
		}
		delete(known, string(key))
	}
	r.unknown(unknown)
	// What etcd says of a lease can be older than what it says of a key.
	for key, created := range r.created(slices.Collect(maps.Keys(known))) {
		if created == 0 {
			r.vanished(known[key])
		}
	}
}

// created is at which revisions etcd says that keys were created, 0 for one that is not there. Of some it may say
// nothing.
func (r *run) created(keys []string) map[string]int64 {
	out := make(map[string]int64, len(keys))
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key, clientv3.WithKeysOnly())
	}
	r.each(ops, func(i int, found *etcdserverpb.ResponseOp) {
		out[keys[i]] = 0
		if kvs := found.GetResponseRange().Kvs; len(kvs) > 0 {
			out[keys[i]] = kvs[0].CreateRevision
		}
	})
	return out
}

// each has etcd carry out operations, many together, and calls done for each that it has.
func (r *run) each(ops []clientv3.Op, done func(i int, resp *etcdserverpb.ResponseOp)) {
	for from := 0; from < len(ops); from += mostReads {
		r.some(ops, from, min(from+mostReads, len(ops)), done)
	}
}

// some is each of those from one to before another.
func (r *run) some(ops []clientv3.Op, from, to int, done func(i int, resp *etcdserverpb.ResponseOp)) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(r.ctx), r.e.cfg.RequestTimeout)
	defer cancel()
	resp, err := r.e.cfg.Client.Txn(ctx).Then(ops[from:to]...).Commit()
	switch {
	case err == nil:
		for i, answer := range resp.Responses {
			done(from+i, answer)
		}
	case to-from > 1 && (errors.Is(err, rpctypes.ErrTooManyOps) || errors.Is(err, rpctypes.ErrPermissionDenied)):
		// What is denied is denied for those alone whom it concerns.
		half := (from + to) / 2
		r.some(ops, from, half, done)
		r.some(ops, half, to, done)
	}
}

// vanished: etcd does not have the entry's key, which it should have.
func (r *run) vanished(x *Entry) {
	r.e.mu.Lock()
	defer r.e.unlock()
	if x.now().Expected() {
		r.e.later(func() {
			r.e.cfg.Logger.Warn("a key of this process in a queue is gone, and others deleted it", "name", x.Name,
				"key", x.key)
		})
		x.turn(x.now().Vanished())
	}
}

// unknown deletes keys on this session's lease that lie among the queues and are nobody's. It returns those of which
// etcd has said that they are not there. What fails is tried again the next time.
func (r *run) unknown(keys []string) (gone map[string]bool) {
	gone = map[string]bool{}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return r.ours(key) || !r.e.queued(key) })
	var left []string
	var deletions []clientv3.Op
	for key, created := range r.created(keys) {
		switch {
		case created == 0:
			gone[key] = true // one of ours that was given up since
		case !r.ours(key):
			r.e.cfg.Logger.Warn("deleting a key on this process's lease that it did not ask for", "key", key)
			left = append(left, key)
			deletions = append(deletions, clientv3.OpTxn([]clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(key), "=", created)}, []clientv3.Op{clientv3.OpDelete(key)}, nil))
		}
	}
	r.each(deletions, func(i int, resp *etcdserverpb.ResponseOp) { gone[left[i]] = resp.GetResponseTxn().Succeeded })
	return gone
}

// ours reports whether an entry has the key.
func (r *run) ours(key string) bool {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	return r.entries[key] != nil
}

// queued reports whether a key lies in a queue that this engine serves.
func (e *Engine) queued(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.queues {
		if _, ok := q.keys.QueueOf(key); ok {
			return true
		}
	}
	return false
}

// roots are those of the queues that this engine serves.
func (e *Engine) roots() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var roots []string
	for _, q := range e.queues {
		roots = append(roots, q.keys.Root())
	}
	return roots
}
