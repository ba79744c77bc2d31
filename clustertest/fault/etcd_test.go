package fault

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

// etcd starts a server for the test. The test fails if goroutines of it, or of the test, are left.
func etcd(t *testing.T) *etcdtest.Server {
	t.Helper()
	noLeaks(t)
	return etcdtest.Start(t)
}

// through returns a relay to a server, and a client that connects through it.
func through(t *testing.T, s *etcdtest.Server) (*Relay, *clientv3.Client) {
	t.Helper()
	r, err := NewRelay(s.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{r.Address()}, DialTimeout: patience,
		Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return r, client
}

// read returns the value of a key, or nil if it does not exist.
func read(t *testing.T, client *clientv3.Client, key string) []byte {
	t.Helper()
	resp, err := client.Get(patient(t), key)
	require.NoError(t, err)
	if resp.Count == 0 {
		return nil
	}
	return resp.Kvs[0].Value
}

func TestEtcdsAnswersAreLost(t *testing.T) {
	s := etcd(t)
	r, client := through(t, s)
	watch := client.Watch(patient(t), "key", clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)
	connections := r.Connections()

	r.Blackhole(FromTarget)
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	put := make(chan error, 1)
	go func() {
		_, err := client.Put(ctx, "key", "value")
		put <- err
	}()
	require.Eventually(t, func() bool { return string(read(t, s.Client(), "key")) == "value" }, patience,
		time.Millisecond, "the request itself arrives")
	select {
	case err := <-put:
		require.Fail(t, "the answer came", "%v", err)
	case <-time.After(silence):
	}
	require.Empty(t, watch)
	cancel()
	require.ErrorIs(t, <-put, context.Canceled)

	require.NoError(t, r.Heal())
	require.Equal(t, "value", string((<-watch).Events[0].Kv.Value), "the watch goes on")
	require.Equal(t, connections, r.Connections(), "on the same connection")
}

func TestRevokeLease(t *testing.T) {
	client := etcd(t).Client()
	lease, err := client.Grant(patient(t), 100)
	require.NoError(t, err)
	for _, key := range []string{"leased", "beside it"} {
		_, err := client.Put(patient(t), key, "value", clientv3.WithLease(lease.ID))
		require.NoError(t, err)
	}
	_, err = client.Put(patient(t), "lasting", "value")
	require.NoError(t, err)

	require.NoError(t, RevokeLease(patient(t), client, "leased"))
	require.Nil(t, read(t, client, "leased"))
	require.Nil(t, read(t, client, "beside it"))
	_, err = client.KeepAliveOnce(patient(t), lease.ID)
	require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)
	require.ErrorIs(t, RevokeLease(patient(t), client, "leased"), ErrNotThere)
	require.ErrorIs(t, RevokeLease(patient(t), client, "lasting"), ErrNotThere)
	require.Equal(t, "value", string(read(t, client, "lasting")))
}

func TestDeleteKey(t *testing.T) {
	client := etcd(t).Client()
	lease, err := client.Grant(patient(t), 100)
	require.NoError(t, err)
	_, err = client.Put(patient(t), "key", "value", clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	require.NoError(t, DeleteKey(patient(t), client, "key"))
	require.Nil(t, read(t, client, "key"))
	_, err = client.KeepAliveOnce(patient(t), lease.ID)
	require.NoError(t, err, "the lease lives")
	require.ErrorIs(t, DeleteKey(patient(t), client, "key"), ErrNotThere)
}
