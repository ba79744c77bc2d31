package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/locktest"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/embedetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func startEtcd(t *testing.T) *embedetcd.Server {
	t.Helper()
	server, err := embedetcd.Start(testContext(t), embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

var locks = func() state.Queues {
	keys, err := state.NewKeys("/locks")
	if err != nil {
		panic(err)
	}
	return keys.Locks()
}()

// process is what one process has.
type process struct {
	*lock.Etcd
	client *clientv3.Client
	keeper *session.Keeper
	faults *clustertest.Faults
}

// start starts one, with a session and a connection of its own; it is stopped with the test.
func start(t *testing.T, endpoint string) *process {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	require.NoError(t, err)
	faults := clustertest.Inject(client)
	keeper, err := session.NewKeeper(session.KeeperConfig{Config: session.Config{Client: client, TTL: 2 * time.Second}})
	require.NoError(t, err)
	e, err := lock.NewEtcd(lock.Config{Client: client, Keeper: keeper, Queues: locks, Owner: t.Name(), RequestTimeout: 300 * time.Millisecond})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = keeper.Run(ctx) })
	wg.Go(func() { e.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = client.Close()
	})
	return &process{Etcd: e, client: client, keeper: keeper, faults: faults}
}

func TestMemoryConforms(t *testing.T) {
	locktest.Run(t, func(*testing.T) (a, b lock.LockRegistry) {
		m := &lock.Memory{}
		return m, m
	})
}

func TestEtcdConforms(t *testing.T) {
	server := startEtcd(t)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		return start(t, server.Endpoint()), start(t, server.Endpoint())
	})
}

func TestOneProcessConforms(t *testing.T) {
	server := startEtcd(t)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		one := start(t, server.Endpoint())
		return one, one
	})
}
