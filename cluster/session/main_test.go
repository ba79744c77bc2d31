package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/embedetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startEtcd is an etcd of the test's own and a client over TCP.
func startEtcd(t *testing.T) (*embedetcd.Server, *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	server, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
