package leasequeue

import (
	"context"
	"errors"
	"maps"
	"strings"

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
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(r.ctx), r.e.cfg.RequestTimeout)
	defer cancel()
	for _, key := range unconfirmed {
		gone := r.unknown(ctx, key)
		r.e.mu.Lock()
		r.keyring.confirmed(key, gone)
		r.e.mu.Unlock()
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
	defer cancel()
	resp, err := r.e.cfg.Client.TimeToLive(ctx, r.s.ID(), clientv3.WithAttachedKeys())
	if errors.Is(err, rpctypes.ErrPermissionDenied) && !r.denied {
		r.denied = true
		r.e.cfg.Logger.Warn("etcd denies to list the keys on this process's lease: that one of them was deleted by others "+
			"is not noticed; grant READ on all of "+strings.Join(r.e.roots(), " and "), "error", err)
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
		if err == nil && found.Count == 0 {
			r.vanished(x)
		}
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

// unknown deletes a key on this session's lease that lies among the queues and is nobody's. It
// reports whether etcd has said that it is not there.
func (r *run) unknown(ctx context.Context, key string) (gone bool) {
	if r.ours(key) || !r.e.queued(key) {
		return false
	}
	found, err := r.e.cfg.Client.Get(ctx, key, clientv3.WithKeysOnly())
	if err != nil || len(found.Kvs) == 0 {
		return err == nil // one of ours that was given up since
	}
	if r.ours(key) {
		return false
	}
	r.e.cfg.Logger.Warn("deleting a key on this process's lease that it did not ask for", "key", key)
	// What fails is tried again the next time.
	resp, err := r.e.cfg.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", found.Kvs[0].CreateRevision)).
		Then(clientv3.OpDelete(key)).Commit()
	return err == nil && resp.Succeeded
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
