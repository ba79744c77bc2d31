//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/counter/counterpb"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

const patience = 20 * time.Second

// TestMain runs the program itself in processes started by package trial.
func TestMain(m *testing.M) { trial.Main(m, main) }

// process is one node.
type process struct {
	*fault.Process
	address string
	client  counterpb.CounterClient
	objects objectspb.ObjectsClient
}

// start starts a node and waits until it is ready.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{address: free(t)}
	p.Process = trial.Program(t, append([]string{"-listen", p.address}, args...)...)
	require.Eventually(t, func() bool { return strings.Contains(p.Output(), "msg=ready") }, patience,
		5*time.Millisecond)
	conn := connect(t, p.address)
	p.client, p.objects = counterpb.NewCounterClient(conn), objectspb.NewObjectsClient(conn)
	return p
}

func free(t *testing.T) string {
	t.Helper()
	address, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	return address
}

// has reports whether a counter is on the node.
func (p *process) has(t *testing.T, key int) bool {
	t.Helper()
	resp, err := p.objects.Describe(etcdtest.Context(t), &objectspb.DescribeRequest{Key: fmt.Append(nil, "counter", key)})
	require.NoError(t, err)
	return len(resp.GetObjects()) > 0
}

// One process is enough: it has its own etcd.
func TestOneCommand(t *testing.T) {
	t.Parallel()
	etcd := free(t)
	first := start(t, "-etcd-listen", etcd)
	second := start(t, "-etcd", etcd)
	for key := range 10 {
		for i, p := range []*process{first, second, first} {
			reply, err := p.client.Add(at(t, key), &counterpb.AddRequest{Amount: 1})
			require.NoError(t, err)
			require.EqualValues(t, i+1, reply.GetSum())
		}
	}
	trial.StopWithin(t, patience, second.Process)
	trial.StopWithin(t, patience, first.Process)
}

// Three nodes are called from outside, each for counters on all of them. One is killed, another one joins, and
// one stops. The calls continue, and a counter restarts only if its node was lost or its shard has moved.
func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	var nodes []*process
	for range 3 {
		nodes = append(nodes, start(t, "-etcd", etcd.Endpoint()))
	}
	const keys = 40
	counts := func(p *process) (n int) {
		for key := range keys {
			if p.has(t, key) {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { // until all three own shards
		for key := range keys {
			_, err := nodes[key%3].client.Get(at(t, key), &counterpb.GetRequest{})
			require.NoError(t, err)
		}
		return counts(nodes[0]) > 0 && counts(nodes[1]) > 0 && counts(nodes[2]) > 0
	}, patience, 20*time.Millisecond)
	begun := map[int]int64{}
	for key := range keys {
		reply, err := nodes[0].client.Get(at(t, key), &counterpb.GetRequest{})
		require.NoError(t, err)
		require.Zero(t, reply.GetSum())
		here := 0
		for i, p := range nodes {
			reply, err := p.client.Add(at(t, key), &counterpb.AddRequest{Amount: 10})
			require.NoError(t, err)
			require.EqualValues(t, 10*(i+1), reply.GetSum(), "each node calls the same counter")
			begun[key] = reply.GetSum()
			if p.has(t, key) {
				here++
			}
		}
		require.Equal(t, 1, here, "a counter is on one node")
	}

	// From here on one caller at a time calls each counter, through the first two nodes.
	var calls, unknown atomic.Int64
	var restarts [keys]atomic.Int64
	next := make(chan int, keys)
	sums := [keys]int64{}
	for key := range keys {
		sums[key] = begun[key]
		next <- key
	}
	end := trial.Meanwhile(t, 8, time.Millisecond, func(ctx context.Context) error {
		key := <-next
		defer func() { next <- key }()
		ctx = metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, fmt.Sprint("counter", key))
		reply, err := nodes[key%2].client.Add(ctx, &counterpb.AddRequest{Amount: 1})
		switch {
		case err == nil && reply.GetSum() == sums[key]+1:
		case err == nil && reply.GetSum() == 1:
			restarts[key].Add(1)
		case err == nil:
			return fmt.Errorf("counter %d: %d after %d", key, reply.GetSum(), sums[key])
		case status.Code(err) == codes.Unavailable && objects.ReasonOf(err) == objects.ReasonMayHaveStarted:
			unknown.Add(1) // unknown whether it was added, but it was on a lost node
			sums[key] = -1
			return nil
		default:
			return err
		}
		sums[key] = reply.GetSum()
		calls.Add(1)
		return nil
	})
	goesOn := func() {
		t.Helper()
		before := calls.Load()
		require.Eventually(t, func() bool { return calls.Load() > before+2*keys }, patience, 5*time.Millisecond)
	}
	goesOn()

	lost := map[int]bool{}
	for key := range keys {
		lost[key] = nodes[2].has(t, key)
		assert.Zero(t, restarts[key].Load(), "counter %d, before anything happened", key)
	}
	_, err := nodes[2].Kill()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		for key := range keys {
			if lost[key] && restarts[key].Load() == 0 {
				return false
			}
		}
		return true
	}, patience, 5*time.Millisecond, "the counters of the killed node go on elsewhere, from 0")
	for key := range keys {
		if !lost[key] {
			require.Zero(t, restarts[key].Load(), "counter %d is on a node that lives", key)
		}
	}
	killed := unknown.Load()

	third := start(t, "-etcd", etcd.Endpoint())
	require.Eventually(t, func() bool { return counts(third) > keys/5 }, patience, 20*time.Millisecond)
	goesOn()
	trial.StopWithin(t, patience, third.Process)
	goesOn()
	require.Equal(t, killed, unknown.Load(), "no call is lost where a node joins or stops")
	end()
	for key := range keys {
		reply, err := nodes[(key+1)%2].client.Get(at(t, key), &counterpb.GetRequest{})
		require.NoError(t, err)
		require.Equal(t, sums[key], reply.GetSum(), "the other node reads what was added")
	}
	t.Logf("%d calls, of %d it is not known whether they ran", calls.Load(), killed)
	trial.Stop(t, nodes[0].Process, nodes[1].Process)
}

// The Python client uses plain gRPC and calls the same counters as other clients.
func TestPython(t *testing.T) {
	t.Parallel()
	client := pythonClient(t)
	p := start(t, "-etcd-listen", free(t))
	_, err := p.client.Add(metadata.AppendToOutgoingContext(etcdtest.Context(t), objects.KeyHeader, "alice"),
		&counterpb.AddRequest{Amount: 2})
	require.NoError(t, err)
	out, err := client(p.address, "alice", "5").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "7\n", string(out))
	trial.Stop(t, p.Process)
}

// The Python client calls a node that owns the counter neither before nor after its shard moves, at a time when
// neither of the two owners serves it.
func TestPythonWhileTheShardMoves(t *testing.T) {
	client := pythonClient(t)
	const key, shards = "alice", 64
	var held atomic.Bool
	release := make(chan struct{})
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = shards, 20*time.Millisecond, 3
		cfg.Sharding.DrainTimeout = patience
		cfg.Sharding.OnRelease = func(_ context.Context, n int) {
			if n == shard.Of(key, shards) && held.CompareAndSwap(false, true) {
				<-release
			}
		}
	}))
	for range 3 {
		n := c.NewNode()
		register(n.Cluster())
		require.NoError(t, n.Start(etcdtest.Context(t)))
	}
	ownerOf := func(n *clustertest.Node) string {
		owner, _ := n.Cluster().Objects().Find(key)
		return owner
	}
	require.Eventually(t, func() bool { return ownerOf(c.Node(0)) != "" }, patience, time.Millisecond)
	former := c.NodeAt(ownerOf(c.Node(0)))
	stopped := make(chan error, 1)
	go func() { stopped <- former.Cluster().Stop(etcdtest.Context(t)) }()
	require.Eventually(t, func() bool { return held.Load() && ownerOf(former) != former.Address() }, patience,
		time.Millisecond)
	next := c.NodeAt(ownerOf(former))
	var through *clustertest.Node
	for _, n := range c.Nodes() {
		if n != former && n != next {
			through = n
		}
	}
	call := client(through.Address(), key, "5")
	var out bytes.Buffer
	call.Stdout, call.Stderr = &out, &out
	require.NoError(t, call.Start())
	require.Eventually(t, func() bool { return next.Cluster().Objects().Stats().Services[0].Waiting == 1 }, patience,
		time.Millisecond, "the call waits at the next owner")
	close(release)
	require.NoError(t, call.Wait(), out.String())
	require.Equal(t, "5\n", out.String())
	require.NoError(t, <-stopped)
}

// pythonClient returns a function that builds the command to call a counter, given a node's address, a key and
// an amount.
func pythonClient(t *testing.T) func(args ...string) *exec.Cmd {
	python := pythonWithGRPC(t)
	dir := t.TempDir()
	out, err := exec.Command(python, "-m", "grpc_tools.protoc", "-I", "counterpb", "--python_out", dir,
		"--grpc_python_out", dir, "counter.proto").CombinedOutput()
	require.NoError(t, err, string(out))
	script, err := filepath.Abs("client.py")
	require.NoError(t, err)
	return func(args ...string) *exec.Cmd {
		cmd := exec.Command(python, append([]string{script}, args...)...)
		cmd.Env = append(cmd.Environ(), "PYTHONPATH="+dir)
		return cmd
	}
}

// pythonWithGRPC returns a Python interpreter with gRPC and its generator.
func pythonWithGRPC(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import grpc, grpc_tools").Run() == nil {
			return python
		}
	}
	needed.Missing(t, "python-grpc", "no python3 with gRPC: pip install grpcio grpcio-tools, or apt-get install "+
		"python3-grpcio python3-grpc-tools")
	return ""
}
