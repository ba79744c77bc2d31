package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/reexec"
)

// TestMain makes this binary the etcd that the tests start, and checks for leaked goroutines.
func TestMain(m *testing.M) {
	reexec.ServeAndExit(etcdproc.Serve)
	goleak.VerifyTestMain(m)
}

// testEtcd returns a new etcd and a client of it.
func testEtcd(t *testing.T) (*etcdproc.Process, *clientv3.Client) {
	t.Helper()
	p, err := etcdproc.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	check := Goroutines()
	t.Cleanup(func() { require.NoError(t, check()) })
	clients, err := Connect(patient(t), p.Endpoint, 1)
	require.NoError(t, err)
	t.Cleanup(func() { Disconnect(clients) })
	return p, clients[0]
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
