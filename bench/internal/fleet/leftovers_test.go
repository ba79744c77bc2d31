package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestWhatIsLeftAtEtcdIsFound(t *testing.T) {
	p, client := testEtcd(t)
	ctx := patient(t)
	require.NoError(t, NothingAtEtcd(ctx, p, client))

	lease, err := client.Grant(ctx, 600)
	require.NoError(t, err)
	_, err = client.Put(ctx, "/left", "", clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	watchCtx, cancel := context.WithCancel(ctx)
	events := client.Watch(watchCtx, "/left", clientv3.WithCreatedNotify())
	<-events
	brief, done := context.WithTimeout(ctx, 50*time.Millisecond)
	defer done()
	err = NothingAtEtcd(brief, p, client)
	require.ErrorIs(t, err, ErrLeft)
	require.ErrorContains(t, err, "1 keys, 1 leases, 1 watches, 1 watch streams")

	cancel()
	_, err = client.Revoke(ctx, lease.ID)
	require.NoError(t, err)
	require.NoError(t, NothingAtEtcd(ctx, p, client))
}

func TestAGoroutineThatIsLeftIsFound(t *testing.T) {
	check := Goroutines()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	require.ErrorIs(t, check(), ErrLeft)
	close(end)
	<-ended
	require.NoError(t, check())
}
