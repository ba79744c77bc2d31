package embedetcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	leaktest.Main(m)
}

// patient returns a context that ends only if a test hangs.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// start returns a server with test timing that is closed with the test.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(patient(t), TestTiming(cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func clientConfig(endpoints ...string) clientv3.Config {
	return clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second}
}

// dial returns a client that connects over TCP.
func dial(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientConfig(endpoints...))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// value reads one key and returns "" if there is none. A server's own client does not retry when etcd's leader
// changes.
func value(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	resp, err := c.Get(patient(t), key)
	for errors.Is(err, rpctypes.ErrLeaderChanged) {
		resp, err = c.Get(patient(t), key)
	}
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}
