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

// repairLoop repairs the state of the session's keys, every third of a TTL.
func (r *sessionRun) repairLoop() {
	for wait.For(r.ctx, r.session.TTL()/3) {
		r.retryDeletions()
		r.sweepUnconfirmed()
		r.compareKeys()
	}
}

// postponeDeletion schedules another attempt to delete the entry's key. Access control may be repaired meanwhile, and
// until the key is gone it blocks its queue. The caller holds Engine.mu.
func (r *sessionRun) postponeDeletion(x *Entry) { r.stuck = append(r.stuck, x) }

// retryDeletions retries the deletions that were put off.
func (r *sessionRun) retryDeletions() {
	r.e.mu.Lock()
	defer r.e.unlock()
	stuck := r.stuck
	r.stuck = nil
	for _, x := range stuck {
		r.outbox.addOp(queueOp{entry: x})
	}
}

// sweepUnconfirmed deletes keys that may have been put without our knowledge, and frees those that are gone.
func (r *sessionRun) sweepUnconfirmed() {
	r.e.mu.Lock()
	unconfirmed := r.keyring.takeUnconfirmed()
	r.e.mu.Unlock()
	if len(unconfirmed) == 0 {
		return
	}
	gone := r.deleteUnknown(unconfirmed)
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	for _, key := range unconfirmed {
		r.keyring.confirmAbsence(key, gone[key])
	}
}

// compareKeys compares the keys on this session's lease with those that should be there. A missing key was deleted
// out of band. An unexpected key was written out of band.
func (r *sessionRun) compareKeys() {
	r.e.mu.Lock()
	known, used := maps.Clone(r.entries), r.lanesStarted
	r.e.mu.Unlock()
	if !used {
		return
	}
	maps.DeleteFunc(known, func(_ string, x *Entry) bool { return !x.state.Load().KeyExpected() })
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(r.ctx), r.e.cfg.RequestTimeout)
	resp, err := r.e.cfg.Client.TimeToLive(ctx, r.session.ID(), clientv3.WithAttachedKeys())
	cancel()
	if errors.Is(err, rpctypes.ErrPermissionDenied) && !r.listingDenied {
		r.listingDenied = true
		r.e.cfg.Logger.Warn("etcd denies to list the keys on this process's lease: that one of them was deleted by others "+
			"is not noticed; grant READ on all of "+strings.Join(r.e.queueRoots(), " and "), "error", err)
	}
	if err != nil || resp.TTL < 0 {
		return // the renewal detects lost leases
	}
	var unknown []string
	for _, key := range resp.Keys {
		if _, ok := known[string(key)]; !ok {
			unknown = append(unknown, string(key))
		}
		delete(known, string(key))
	}
	r.deleteUnknown(unknown)
	// A lease's list of keys may be older than a read of a key.
	for key, created := range r.createRevisions(slices.Collect(maps.Keys(known))) {
		if created == 0 {
			r.handleMissingKey(known[key])
		}
	}
}

// createRevisions returns the CreateRevision of each key, and 0 for a key that does not exist. Keys that could not be
// read are left out.
func (r *sessionRun) createRevisions(keys []string) map[string]int64 {
	out := make(map[string]int64, len(keys))
	ops := make([]repairOp, len(keys))
	for i, key := range keys {
		ops[i] = repairOp{clientv3.OpGet(key, clientv3.WithKeysOnly()), func(found *etcdserverpb.ResponseOp) {
			out[key] = 0
			if kvs := found.GetResponseRange().Kvs; len(kvs) > 0 {
				out[key] = kvs[0].CreateRevision
			}
		}}
	}
	r.commitOps(ops)
	return out
}

// repairOp is an operation, and a function to be called if it was carried out.
type repairOp struct {
	op   clientv3.Op
	done func(*etcdserverpb.ResponseOp)
}

// commitOps sends operations in large transactions, or in smaller ones if etcd denies some.
func (r *sessionRun) commitOps(ops []repairOp) {
	_ = commitInParts(ops, maxReadsPerTxn, func(part []repairOp) (refused []repairOp, _ error) {
		all := make([]clientv3.Op, len(part))
		for i, o := range part {
			all[i] = o.op
		}
		resp, err := r.commitTxn(r.ctx, nil, all, nil)
		switch {
		case err == nil:
			for i, answer := range resp.Responses {
				part[i].done(answer)
			}
		case halvable(err) && len(part) > 1:
			return part, nil
		}
		return nil, nil
	})
}

// handleMissingKey handles an entry if its key should exist but does not.
func (r *sessionRun) handleMissingKey(x *Entry) {
	r.e.mu.Lock()
	defer r.e.unlock()
	if x.state.Load().KeyExpected() {
		r.e.queueNotice(func() {
			r.e.cfg.Logger.Warn("a queue entry of this process was deleted out of band", "name", x.Name,
				"key", x.key)
		})
		x.applyChange(x.state.Load().KeyVanished())
	}
}

// deleteUnknown deletes those of the given keys on this session's lease that lie in a served queue and belong to no
// entry. It returns the keys that etcd has confirmed to be gone. Failures are retried at the next tick.
func (r *sessionRun) deleteUnknown(keys []string) (gone map[string]bool) {
	gone = map[string]bool{}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return r.ownsKey(key) || !r.e.servesKey(key) })
	var deletions []repairOp
	for key, created := range r.createRevisions(keys) {
		switch {
		case created == 0:
			gone[key] = true // it was an entry of ours, released meanwhile
		case !r.ownsKey(key):
			r.e.cfg.Logger.Warn("deleting an unexpected key on this process's lease", "key", key)
			deletions = append(deletions, repairOp{clientv3.OpTxn([]clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(key), "=", created)}, []clientv3.Op{clientv3.OpDelete(key)}, nil),
				func(done *etcdserverpb.ResponseOp) { gone[key] = done.GetResponseTxn().Succeeded }})
		}
	}
	r.commitOps(deletions)
	return gone
}

// ownsKey reports whether an entry uses the key.
func (r *sessionRun) ownsKey(key string) bool {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	return r.entries[key] != nil
}

// servesKey reports whether the key lies in a queue that this engine serves.
func (e *Engine) servesKey(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.queues {
		if _, ok := q.keys.QueueOf(key); ok {
			return true
		}
	}
	return false
}

// queueRoots returns the roots of the queues that this engine serves.
func (e *Engine) queueRoots() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var roots []string
	for _, q := range e.queues {
		roots = append(roots, q.keys.Root())
	}
	return roots
}
