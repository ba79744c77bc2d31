package leaderelection

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// boundedKV adds a time-out to every request of concurrency.Election, which the recipe lacks. It makes a member
// of etcd that is cut off from the others refuse requests, and it reports the recipe's changes of the
// candidate's key.
type boundedKV struct {
	clientv3.KV
	timeout   time.Duration
	mirror    *watchcache.Mirror
	onJoined  func(createRevision int64) // the key exists; may be nil
	onLeaving func()                     // the key is about to be deleted; may be nil
}

// Get sends one range request with a time-out.
func (kv boundedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, kv.timeout)
	defer cancel()
	return kv.KV.Get(clientv3.WithRequireLeader(ctx), key, opts...)
}

// Txn returns a transaction with a time-out.
func (kv boundedKV) Txn(ctx context.Context) clientv3.Txn {
	return txn.Collect(func(p txn.Parts) (*clientv3.TxnResponse, error) { return kv.commit(ctx, p) })
}

func (kv boundedKV) commit(ctx context.Context, p txn.Parts) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, kv.timeout)
	defer cancel()
	if kv.onLeaving != nil && slices.ContainsFunc(p.Then, clientv3.Op.IsDelete) {
		kv.onLeaving()
	}
	known := kv.mirror.KnownRevision()
	resp, err := kv.KV.Txn(clientv3.WithRequireLeader(ctx)).If(p.If...).Then(p.Then...).Else(p.Else...).Commit()
	if err != nil {
		return resp, err
	}
	kv.mirror.ObserveHeader(resp.Header, known)
	if kv.onJoined == nil || !slices.ContainsFunc(p.Then, clientv3.Op.IsPut) {
		return resp, nil
	}
	// The campaign's first transaction creates the key or finds it.
	if resp.Succeeded {
		kv.onJoined(resp.Header.Revision)
	} else if len(resp.Responses) == 1 {
		if r := resp.Responses[0].GetResponseRange(); r != nil && len(r.Kvs) == 1 {
			kv.onJoined(r.Kvs[0].CreateRevision)
		}
	}
	return resp, nil
}

// mirrorWatcher implements as much of clientv3.Watcher on the mirror as concurrency.Election needs: it reports
// that a single key is gone. A watch in etcd would cost one per candidate, and its answer would be 50 to 95 ms
// late if it is opened at a revision that the store has reached already.
type mirrorWatcher struct{ mirror *watchcache.Mirror }

// Watch reports one DELETE of key once the snapshot is at the given revision or later and key is absent, or was
// created again after that revision.
func (w mirrorWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	from := clientv3.OpGet(key, opts...).Rev()
	// The channel holds the one answer, and the goroutine ends with ctx, which the recipe always cancels.
	ch := make(chan clientv3.WatchResponse, 1)
	go func() {
		defer close(ch)
		var f candidacy.KeyTracker
		s, err := w.mirror.Wait(ctx, func(s *state.Snapshot) bool { return f.KeyGone(s, key, from) })
		if err != nil {
			return
		}
		deleted := &clientv3.Event{Type: clientv3.EventTypeDelete}
		ch <- clientv3.WatchResponse{Events: []*clientv3.Event{deleted},
			Header: &etcdserverpb.ResponseHeader{ClusterId: s.ClusterID, Revision: s.Revision}}
	}()
	return ch
}

// RequestProgress does nothing: the mirror checks its own watch.
func (w mirrorWatcher) RequestProgress(context.Context) error { return nil }

// Close does nothing: the mirror has another owner.
func (w mirrorWatcher) Close() error { return nil }
