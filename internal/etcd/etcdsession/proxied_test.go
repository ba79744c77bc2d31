package etcdsession

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
)

// proxiedLease answers renewals as a proxy does: with the answer to an earlier renewal of its own.
type proxiedLease struct {
	*scriptedLease
	renewed time.Time // when etcd last renewed the lease
	older   time.Duration
}

func (l *proxiedLease) KeepAliveOnce(ctx context.Context,
	id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	l.mu.Lock()
	l.renewed = time.Now().Add(-l.older)
	l.mu.Unlock()
	return l.scriptedLease.KeepAliveOnce(ctx, id)
}

func (l *proxiedLease) TimeToLive(context.Context, clientv3.LeaseID,
	...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	left := time.Until(l.at().Add(10 * time.Second))
	return &clientv3.LeaseTimeToLiveResponse{ResponseHeader: &etcdserverpb.ResponseHeader{}, ID: 7,
		TTL: int64(left / time.Second), GrantedTTL: 10}, nil
}

func (l *proxiedLease) at() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

// proxyView is the view of a process behind a proxy.
type proxyView struct{ noView }

func (proxyView) Proxied() bool { return true }

// A proxy's answer may belong to an earlier renewal, so etcd's own report of the remaining time counts.
func TestBehindAProxyEtcdIsAskedHowLongTheLeaseLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &proxiedLease{scriptedLease: &scriptedLease{}}
		client := clientv3.NewCtxClient(context.Background())
		client.Lease, client.KV = lease, turnsKV{e: &turns{endpoints: 1}}
		s, err := Open(context.Background(), Config{Process: etcd.Process{Client: client}, TTL: 10 * time.Second,
			View: proxyView{}})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close(context.Background())) }()
		for _, older := range []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond, 0} {
			lease.mu.Lock()
			lease.older = older
			lease.mu.Unlock()
			pass(4 * time.Second) // at least one round
			require.True(t, s.Valid())
			require.LessOrEqual(t, s.Deadline(), lease.at().Add(9900*time.Millisecond),
				"never later than etcd's end of the lease")
			require.Greater(t, s.Deadline(), lease.at().Add(8*time.Second), "and not much sooner")
		}
	})
}
