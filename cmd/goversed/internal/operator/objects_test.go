package operator

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/probepb"
)

const probeService = "goverse.testkit.probe.Probe"

func TestPrintObjects(t *testing.T) {
	t.Parallel()
	nodes := []NodeObjects{
		{Address: "a:1", Services: []ServiceObjects{{"shop.Cart", 1200, 3, 45678}, {"shop.Stock", 0, 0, 0}}},
		{Address: "b:1", Services: []ServiceObjects{}},
		{Address: "c:1", Services: []ServiceObjects{}, Error: "connect: connection refused"},
	}
	var out strings.Builder
	printed := func(o Objects) string {
		t.Helper()
		out.Reset()
		require.NoError(t, PrintObjects(&out, o, false))
		return out.String()
	}
	require.Equal(t, `objects   1200 active
nodes     3, of which 1 did not answer

NODE  SERVICE     ACTIVE  WAITING  CALLS  NOTES
a:1   shop.Cart   1200    3        45678  -
a:1   shop.Stock  0       0        0      -
b:1   -           -       -        -      no service is registered
c:1   -           -       -        -      connect: connection refused
`, printed(Objects{Nodes: nodes}))

	key := &KeyObjects{Key: "alice\xff", Shard: 12, Owner: "a:1", State: shard.Alive, Epoch: 5, WaitsFor: "c:1",
		Objects: []Object{{"a:1", "shop.Cart", "active", 5, 1, 2, 3723.4}, {"a:1", "shop.Stock", "waiting", 0, 1, 0, 0.0123}}}
	require.Equal(t, `key       "alice\xff"
shard     12
owner     a:1 (alive, epoch 5)
waits     for c:1 to release the shard
nodes     3, of which 1 did not answer

NODE  SERVICE     STATE    EPOCH  WAITING  RUNNING  AGE
a:1   shop.Cart   active   5      1        2        1h2m3s
a:1   shop.Stock  waiting  0      1        0        12ms

NODE  NOTES
c:1   connect: connection refused
`, printed(Objects{Nodes: nodes, Key: key}))
	require.Equal(t, `key       bob
shard     3
owner     none
nodes     2

none of the nodes that answered has an object with this key
`, printed(Objects{Nodes: nodes[:2], Key: &KeyObjects{Key: "bob", Shard: 3}}))

	out.Reset()
	key = &KeyObjects{Key: "bob", Objects: []Object{}}
	require.NoError(t, PrintObjects(&out, Objects{Nodes: nodes[2:], Key: key}, true))
	require.JSONEq(t, `{"nodes": [{"address": "c:1", "error": "connect: connection refused", "services": []}],
		"key": {"key": "bob", "shard": 0, "owner": "", "epoch": 0, "objects": []}}`, out.String())
	require.Error(t, PrintObjects(fullWriter{}, Objects{Nodes: nodes}, false))
	require.Error(t, PrintObjects(fullWriter{}, Objects{Nodes: nodes, Key: key}, false))
}

// Two nodes with objects, and one that does not answer.
func TestObjects(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 64, 20*time.Millisecond, 2
	}))
	ctx := testContext(t)
	world := &probepb.World{}
	begun, release := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	world.SetAction("wait", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		close(begun)
		<-release
		return &probepb.DoResponse{}, nil
	})
	for range 2 {
		n := c.NewNode()
		world.Register(n.Cluster(), n.Address())
		require.NoError(t, n.Start(ctx))
	}
	at := func(key string) probepb.ProbeClient {
		return probepb.NewProbeClient(c.Node(0).Cluster().Objects().At(key))
	}
	const binary = "\x00\xff alice"
	for i := range 9 {
		_, err := at(fmt.Sprint("key", i)).Add(ctx, &probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := at(binary).Do(ctx, &probepb.DoRequest{What: "wait"})
		done <- err
	}()
	<-begun
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	defer c.PutStrayKey(nodetest.Keys.Node(silent.Addr().String()), state.Record{}.Encode())()

	all, err := openOperator(t, c).Objects(ctx, 300*time.Millisecond, "")
	require.NoError(t, err)
	require.Nil(t, all.Key)
	require.Len(t, all.Nodes, 3)
	answered, active := all.CountAnswered()
	require.Equal(t, 2, answered)
	require.EqualValues(t, 10, active)
	var calls int64
	for _, n := range all.Nodes {
		if n.Address == silent.Addr().String() {
			require.Equal(t, NodeObjects{Address: n.Address, Error: "no answer in time", Services: []ServiceObjects{}}, n)
			continue
		}
		require.Len(t, n.Services, 1)
		require.Equal(t, probeService, n.Services[0].Service)
		calls += n.Services[0].Calls
	}
	require.EqualValues(t, 9, calls)

	all, err = openOperator(t, c).Objects(ctx, 300*time.Millisecond, binary)
	require.NoError(t, err)
	owner, _ := c.Node(0).Cluster().Objects().Find(binary)
	require.Equal(t, shard.Of(binary, 64), all.Key.Shard)
	require.Equal(t, owner, all.Key.Owner)
	require.Equal(t, shard.Alive, all.Key.State)
	require.Len(t, all.Key.Objects, 1)
	found := all.Key.Objects[0]
	require.Positive(t, found.Age)
	found.Age = 0
	require.Equal(t, Object{Node: owner, Service: probeService, State: "active", Epoch: all.Key.Epoch, Running: 1}, found)

	all, err = openOperator(t, c).Objects(ctx, 300*time.Millisecond, "nobody called this")
	require.NoError(t, err)
	require.NotEmpty(t, all.Key.Owner)
	require.Empty(t, all.Key.Objects)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.Contains(t, string(text), `"objects":[]`)
	end()
	require.NoError(t, <-done)
}

// A node that cannot list its objects is shown with a one-line error.
func TestNodesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	o := openOperator(t, c)
	ask := func(address, key string) string {
		t.Helper()
		n := o.describeNode(testContext(t), patience, address, key, nil)
		require.NotNil(t, n.Services)
		require.NotContains(t, n.Error, "\n")
		return n.Error
	}
	require.Empty(t, ask(c.Node(0).Address(), "alice"))
	require.Equal(t, "connect: connection refused", ask("127.0.0.1:1", ""))
	require.Contains(t, ask("no-such-host.invalid:1", ""), "lookup no-such-host.invalid")
	require.Contains(t, ask(c.Node(0).Address(), strings.Repeat("k", objects.MaxKey+1)), "1024")
	require.Equal(t, "no answer in time", o.describeNode(testContext(t), 0, c.Node(0).Address(), "", nil).Error)

	serve := func(opts ...grpc.ServerOption) (address string) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server, ended := grpc.NewServer(opts...), make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve(l)
		}()
		t.Cleanup(func() {
			server.Stop()
			<-ended
		})
		return l.Addr().String()
	}
	const old = "it runs a version without objects"
	require.Equal(t, old, ask(serve(), ""))
	web := httptest.NewTLSServer(http.NotFoundHandler()) // it has a certificate
	defer web.Close()
	encrypted := serve(grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
	require.Contains(t, ask(encrypted, ""), "no gRPC there, or other TLS settings: ")
	authorities := x509.NewCertPool()
	authorities.AddCert(web.Certificate())
	certs := grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(authorities, ""))
	require.Equal(t, old, o.describeNode(testContext(t), patience, encrypted, "", []grpc.DialOption{certs}).Error)

	elsewhere, err := Open(t.Context(), cluster.Config{EtcdAddress: c.Etcd().Endpoint(), EtcdPrefix: "/other"}, patience)
	require.NoError(t, err)
	defer func() { require.NoError(t, elsewhere.Close()) }()
	refused := elsewhere.describeNode(testContext(t), patience, c.Node(0).Address(), "", nil).Error
	require.Contains(t, refused, `of the cluster "/goverse"`)
	_, err = elsewhere.Objects(testContext(t), patience, "")
	require.ErrorIs(t, err, ErrNoNodes)
}

// Locating a key needs a shard map; counting objects does not.
func TestObjectsWithoutShards(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Sharding.Off = true }))
	o := openOperator(t, c)
	all, err := o.Objects(testContext(t), patience, "")
	require.NoError(t, err)
	require.Equal(t, []NodeObjects{{Address: c.Node(0).Address(), Services: []ServiceObjects{}}}, all.Nodes)
	_, err = o.Objects(testContext(t), patience, "alice")
	require.ErrorIs(t, err, shardview.ErrNoMap)
	require.ErrorContains(t, err, "goversed shards plan shows what it waits for")
	_, err = c.Client().Put(testContext(t), nodetest.Keys.ShardMap(), "{")
	require.NoError(t, err)
	_, err = o.Objects(testContext(t), patience, "alice")
	require.ErrorIs(t, err, sharding.ErrBadMap)

	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	_, err = o.Objects(ctx, patience, "")
	require.Error(t, err)
}

// The state of a key's shard is derived from the map, the members and the reports of released shards.
func TestWhereAKeyLives(t *testing.T) {
	t.Parallel()
	snapshot := func(members ...state.KV) *state.Snapshot {
		// One shard that moves from a:1 to b:1.
		value := `{"version":1,"shards":1,"generation":5,"grants":[{"address":"b:1","incarnation":4,"epoch":5,"shards":"0"}],
			"moves":[{"address":"a:1","incarnation":2,"since":5,"shards":"0"}]}`
		return state.BuildSnapshot(nodetest.Keys, 1, 9, append(members,
			state.KV{Key: nodetest.Keys.ShardMap(), Value: []byte(value),
				CreateRevision: 3, ModRevision: 6}))
	}
	member := func(address string, incarnation int64, r state.Record) state.KV {
		return state.KV{Key: nodetest.Keys.Node(address), Value: []byte(r.Encode()), CreateRevision: incarnation,
			ModRevision: incarnation}
	}
	for name, tc := range map[string]struct {
		snap     *state.Snapshot
		state    shard.OwnerState
		waitsFor string
	}{
		"it moves": {snapshot(member("a:1", 2, state.Record{Shards: 1}), member("b:1", 4, state.Record{Shards: 1})),
			shard.Alive, "a:1"},
		"the former one is gone": {snapshot(member("b:1", 4, state.Record{Shards: 1})), shard.Alive, ""},
		"it is drained":          {snapshot(member("b:1", 4, state.Record{Shards: 1, Draining: true})), shard.Draining, ""},
		"it is another node":     {snapshot(member("b:1", 8, state.Record{Shards: 1})), shard.Gone, ""},
		"it is gone":             {snapshot(), shard.Gone, ""},
	} {
		k, err := keyObjects(tc.snap, "alice")
		require.NoError(t, err, name)
		require.Equal(t, &KeyObjects{Key: "alice", Owner: "b:1", State: tc.state, Epoch: 5, WaitsFor: tc.waitsFor,
			Objects: []Object{}}, k, name)
	}
}
