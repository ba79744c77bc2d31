package once_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/once"
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

// scene is two processes and a client that no fault touches.
type scene struct {
	*testing.T
	ctx    context.Context
	keys   state.Keys
	client *clientv3.Client
	a, b   *process
}

// process is what one process has.
type process struct {
	*once.Effects
	keeper *session.Keeper
	faults *clustertest.Faults
}

func newScene(t *testing.T) *scene {
	t.Parallel()
	server, err := embedetcd.Start(testContext(t), embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	s := &scene{T: t, ctx: testContext(t), keys: keys}
	s.client = s.connect(server.Endpoint())
	s.a, s.b = s.start(server.Endpoint(), "a:1"), s.start(server.Endpoint(), "b:1")
	return s
}

func (s *scene) connect(endpoint string) *clientv3.Client {
	s.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	require.NoError(s, err)
	s.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *scene) start(endpoint, owner string) *process {
	s.Helper()
	client := s.connect(endpoint)
	faults := clustertest.Inject(client)
	keeper, err := session.NewKeeper(session.KeeperConfig{Config: session.Config{Client: client, TTL: 2 * time.Second}})
	require.NoError(s, err)
	e, err := once.New(once.Config{Client: client, Keeper: keeper, Keys: s.keys, Owner: owner, RequestTimeout: 300 * time.Millisecond})
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = keeper.Run(ctx) })
	wg.Go(func() { e.Run(ctx) })
	s.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return &process{Effects: e, keeper: keeper, faults: faults}
}
