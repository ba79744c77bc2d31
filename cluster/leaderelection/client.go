package leaderelection

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state"
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

// Txn starts a transaction. Its time-out runs from here to Commit.
func (kv boundedKV) Txn(ctx context.Context) clientv3.Txn {
	ctx, cancel := context.WithTimeout(ctx, kv.timeout)
	return &boundedTxn{Txn: kv.KV.Txn(clientv3.WithRequireLeader(ctx)), kv: kv, cancel: cancel}
}

type boundedTxn struct {
	clientv3.Txn
	kv      boundedKV
	cancel  context.CancelFunc
	deletes bool
	creates bool
}

func (t *boundedTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	t.Txn = t.Txn.If(cs...)
	return t
}

func (t *boundedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		t.deletes = t.deletes || op.IsDelete()
		t.creates = t.creates || op.IsPut()
	}
	t.Txn = t.Txn.Then(ops...)
	return t
}

func (t *boundedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.Txn = t.Txn.Else(ops...)
	return t
}

func (t *boundedTxn) Commit() (*clientv3.TxnResponse, error) {
	defer t.cancel()
	if t.deletes && t.kv.onLeaving != nil {
		t.kv.onLeaving()
	}
	known := t.kv.mirror.KnownRevision()
	resp, err := t.Txn.Commit()
	if err != nil {
		return resp, err
	}
	t.kv.mirror.ObserveHeader(resp.Header, known)
	if !t.creates || t.kv.onJoined == nil {
		return resp, nil
	}
	// The campaign's first transaction creates the key or finds it.
	if resp.Succeeded {
		t.kv.onJoined(resp.Header.Revision)
	} else if len(resp.Responses) == 1 {
		if r := resp.Responses[0].GetResponseRange(); r != nil && len(r.Kvs) == 1 {
			t.kv.onJoined(r.Kvs[0].CreateRevision)
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
