package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/probepb"
)

var errOwn = errors.New("a cause of its own")

// objectNodes starts a cluster of nodes that host probes. When it returns, all of them serve shards.
func objectNodes(t *testing.T, nodes int, opts ...clustertest.Option) (*clustertest.Cluster, *probepb.World) {
	t.Helper()
	c := clustertest.New(t, 0, append(opts, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window = 64, 20*time.Millisecond
		cfg.Sharding.MinMembers = min(nodes, 2)
	}))...)
	w := &probepb.World{}
	for range nodes {
		addNode(t, c, w)
	}
	for _, n := range c.Nodes() {
		awaitServing(t, n)
	}
	return c, w
}

func addNode(t *testing.T, c *clustertest.Cluster, w *probepb.World) *clustertest.Node {
	t.Helper()
	n := c.NewNode()
	w.Register(n.Cluster(), n.Address(), objects.Concurrent("Download", "Beside"))
	require.NoError(t, n.Start(patient(t)))
	return n
}

func awaitServing(t *testing.T, n *clustertest.Node) {
	t.Helper()
	require.Eventually(t, func() bool { return n.Cluster().Status().Shards.Serving > 0 }, time.Minute,
		time.Millisecond)
}

// ownedBy returns the key of an object on a node.
func ownedBy(t *testing.T, n *clustertest.Node, like string) string {
	t.Helper()
	for i := range 10000 {
		key := fmt.Sprint(like, i)
		if owner, ok := n.Cluster().Shards().Owner(key); ok && owner.Address == n.Address() {
			return key
		}
	}
	t.Fatalf("%s owns nothing", n.Address())
	return ""
}

// silent returns an address that accepts connections and answers nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().String()
}

// refusing returns an address at which no process listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestCallsGoToTheOwners(t *testing.T) {
	t.Parallel()
	nodes, w := objectNodes(t, 3)
	w.SetAction("headers", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return &probepb.DoResponse{Said: md.Get("say")[0]}, grpc.SetHeader(ctx, metadata.Pairs("node", p.Node))
	})
	var unary, streams atomic.Int64
	// Seeds that do not answer delay Dial only briefly. The client learns the other nodes from the one that
	// answers.
	c := dialWithTiming(t, client.Config{Addresses: []string{silent(t), refusing(t), nodes.Node(1).Address()},
		UnaryInterceptors: []grpc.UnaryClientInterceptor{func(ctx context.Context, method string, req, reply any,
			cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			unary.Add(1)
			return invoke(ctx, method, req, reply, cc, opts...)
		}},
		StreamInterceptors: []grpc.StreamClientInterceptor{func(ctx context.Context, desc *grpc.StreamDesc,
			cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			streams.Add(1)
			return open(ctx, desc, cc, method, opts...)
		}}})
	for _, n := range nodes.Nodes() {
		key := ownedBy(t, n, "key")
		probe := probepb.NewProbeClient(c.At(key))
		sum, err := probe.Add(patient(t), &probepb.AddRequest{Amount: 5})
		require.NoError(t, err)
		require.EqualValues(t, 5, sum.GetSum())
		require.Equal(t, n.Address(), sum.GetNode())
		sum, err = probepb.NewProbeClient(nodes.Node(0).Cluster().Objects().At(key)).Add(patient(t), &probepb.AddRequest{})
		require.NoError(t, err)
		require.EqualValues(t, 5, sum.GetSum(), "the object that nodes call")

		var header metadata.MD
		said, err := probe.Do(metadata.AppendToOutgoingContext(patient(t), "say", "hello"),
			&probepb.DoRequest{What: "headers"}, grpc.Header(&header))
		require.NoError(t, err)
		require.Equal(t, "hello", said.GetSaid())
		require.Equal(t, []string{n.Address()}, header.Get("node"))
		allStreams(t, probe)
	}
	require.EqualValues(t, 6, unary.Load())
	require.EqualValues(t, 9, streams.Load())
	// The three calls from node 0 were its own.
	require.EqualValues(t, 2, nodes.Node(0).Cluster().Objects().Stats().Remote)
	for _, n := range nodes.Nodes()[1:] {
		require.Zero(t, n.Cluster().Objects().Stats().Remote, "no call was forwarded")
	}
	for _, err := range []error{c.At("").Invoke(patient(t), probepb.Probe_Add_FullMethodName, &probepb.AddRequest{},
		&probepb.AddResponse{}), c.At("a").Invoke(patient(t), "/none.Service/Get", &probepb.Blob{}, &probepb.Blob{})} {
		require.True(t, objects.NotStarted(err), "%v", err)
		require.Equal(t, objects.ReasonBadCall, objects.ReasonOf(err))
	}
}

// allStreams makes one call of each streaming kind.
func allStreams(t *testing.T, probe probepb.ProbeClient) {
	t.Helper()
	down, err := probe.Download(patient(t), &probepb.DownloadRequest{Blobs: 3, Bytes: 10})
	require.NoError(t, err)
	for range 3 {
		_, err = down.Recv()
		require.NoError(t, err)
	}
	_, err = down.Recv()
	require.ErrorIs(t, err, io.EOF)

	up, err := probe.Upload(patient(t))
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, up.Send(&probepb.Blob{Data: make([]byte, 10)}))
	}
	sum, err := up.CloseAndRecv()
	require.NoError(t, err)
	require.EqualValues(t, 30, sum.GetSum())

	chat, err := probe.Chat(patient(t))
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, chat.Send(&probepb.Blob{Data: []byte("hello")}))
		blob, err := chat.Recv()
		require.NoError(t, err)
		require.Equal(t, "hello", string(blob.GetData()))
	}
	require.NoError(t, chat.CloseSend())
	_, err = chat.Recv()
	require.ErrorIs(t, err, io.EOF)
}

// traffic makes calls without a pause until stop. Every failed call is an error.
type traffic struct {
	t     *testing.T
	calls atomic.Int64
	stop  func()
}

func newTraffic(t *testing.T, callers int, call func(ctx context.Context, i int) error) *traffic {
	f := &traffic{t: t}
	ctx, cancel := context.WithCancel(patient(t))
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for i := g; ctx.Err() == nil; i++ {
				if err := call(ctx, i); err != nil && ctx.Err() == nil {
					t.Errorf("call %d: %v", i, err)
					return
				}
				f.calls.Add(1)
			}
		})
	}
	f.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(f.stop)
	return f
}

// more waits until more calls were made.
func (f *traffic) more() {
	f.t.Helper()
	until := f.calls.Load() + 200
	require.Eventually(f.t, func() bool { return f.t.Failed() || f.calls.Load() >= until }, time.Minute,
		time.Millisecond)
	require.False(f.t, f.t.Failed())
}

func TestMovesAreFollowed(t *testing.T) {
	t.Parallel()
	nodes, w := objectNodes(t, 2)
	c := dialWithTiming(t, client.Config{Addresses: []string{nodes.Node(0).Address()}})
	var cut atomic.Int64
	calls := newTraffic(t, 4, func(ctx context.Context, i int) error {
		probe := probepb.NewProbeClient(c.At(fmt.Sprint("key", i%100)))
		if i%4 > 0 {
			_, err := probe.Add(ctx, &probepb.AddRequest{Amount: 1})
			return err
		}
		stream, err := probe.Download(ctx, &probepb.DownloadRequest{Blobs: 2, Bytes: 10})
		for err == nil {
			_, err = stream.Recv()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case objects.ReasonOf(err) == objects.ReasonMayHaveStarted: // streams end when their shard moves
			cut.Add(1)
			return nil
		}
		return err
	})
	calls.more()
	for range 3 {
		n := addNode(t, nodes, w)
		awaitServing(t, n)
		key := ownedBy(t, n, "new")
		sum, err := probepb.NewProbeClient(c.At(key)).Add(patient(t), &probepb.AddRequest{})
		require.NoError(t, err)
		require.Equal(t, n.Address(), sum.GetNode())
		calls.more()
		n.Stop()
		calls.more()
	}
	// The only seed stops; the client knows the other node.
	nodes.Node(0).Stop()
	calls.more()
	calls.stop()
	t.Log("calls:", calls.calls.Load(), "streams cut off:", cut.Load())
	for _, n := range nodes.Nodes() {
		require.Zero(t, n.Cluster().Objects().Stats().Remote, "no call was forwarded")
	}
}

func TestTheWatchedNodeIsKilled(t *testing.T) {
	t.Parallel()
	nodes, _ := objectNodes(t, 3)
	log := &logtest.Buffer{}
	victim, left := nodes.Node(1), []*clustertest.Node{nodes.Node(0), nodes.Node(2)}
	c := dialWithTiming(t, client.Config{Addresses: []string{victim.Address()}, Logger: log.Logger()})
	keys := []string{ownedBy(t, left[0], "key"), ownedBy(t, left[1], "key")}
	lost := ownedBy(t, victim, "key")
	calls := newTraffic(t, 2, func(ctx context.Context, i int) error {
		_, err := probepb.NewProbeClient(c.At(keys[i%2])).Add(ctx, &probepb.AddRequest{Amount: 1})
		return err
	})
	calls.more()
	victim.Kill()
	log.Await(t, "the node that reported the routes is lost")
	calls.more()
	require.Eventually(t, func() bool {
		return log.Line("the routes come from another node", left[0].Address()) != "" ||
			log.Line("the routes come from another node", left[1].Address()) != ""
	}, 20*time.Second, time.Millisecond)
	// Another node soon has its objects.
	sum, err := probepb.NewProbeClient(c.At(lost)).Add(patient(t), &probepb.AddRequest{Amount: 1})
	require.NoError(t, err)
	require.NotEqual(t, victim.Address(), sum.GetNode())
	calls.more()
	calls.stop()
}

// A call that may have run is repeated only if its method is idempotent.
func TestIdempotentCallsAreRepeated(t *testing.T) {
	t.Parallel()
	nodes, w := objectNodes(t, 3)
	victim := nodes.Node(2)
	begun := make(chan bool, 10)
	w.SetAction("wait", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		if p.Node != victim.Address() {
			return &probepb.DoResponse{Said: p.Node}, nil
		}
		begun <- true
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c := dialWithTiming(t, client.Config{Addresses: []string{nodes.Node(0).Address()},
		Idempotent: []string{probepb.Probe_Do_FullMethodName}})
	a, b := probepb.NewProbeClient(c.At(ownedBy(t, victim, "a"))), probepb.NewProbeClient(c.At(ownedBy(t, victim, "b")))
	var wg sync.WaitGroup
	var repeated, not error
	wg.Go(func() { _, repeated = a.Do(patient(t), &probepb.DoRequest{What: "wait"}) })
	wg.Go(func() { _, not = b.Repeat(patient(t), &probepb.DoRequest{What: "wait"}) })
	<-begun
	<-begun
	victim.Kill()
	wg.Wait()
	require.NoError(t, repeated)
	require.Equal(t, objects.ReasonMayHaveStarted, objects.ReasonOf(not), "%v", not)
}

func TestAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	nodes, _ := objectNodes(t, 1)
	address := nodes.Node(0).Address()
	_, err := client.Dial(patient(t), client.Config{Addresses: []string{address}, Prefix: "/other"})
	require.ErrorIs(t, err, client.ErrOtherCluster)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "it is not tried again")
	require.ErrorContains(t, err, address+`: objects: this node is of the cluster "/goverse", not of "/other"`)
	require.NotContains(t, err.Error(), "\n")

	// While a node does not answer, it may belong to the cluster.
	down, mute := refusing(t), silent(t)
	ctx, cancel := context.WithTimeout(patient(t), 2*time.Second)
	defer cancel()
	_, err = client.Dial(ctx, client.Config{Addresses: []string{address, down, mute}, Prefix: "/other"})
	require.ErrorIs(t, err, client.ErrOtherCluster)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "connection refused")
	for _, a := range []string{address, down, mute} {
		require.ErrorContains(t, err, a+": ")
	}

	c := dialWithTiming(t, client.Config{Addresses: []string{mute, address}, Prefix: clustertest.Prefix})
	_, err = probepb.NewProbeClient(c.At("key")).Add(patient(t), &probepb.AddRequest{})
	require.NoError(t, err)
}

func TestClose(t *testing.T) {
	t.Parallel()
	nodes, w := objectNodes(t, 1)
	begun := make(chan bool, 1)
	w.SetAction("wait", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		begun <- true
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c := dialWithTiming(t, client.Config{Addresses: []string{nodes.Node(0).Address()}})
	probe := probepb.NewProbeClient(c.At("key"))
	stream, err := probe.Download(patient(t), &probepb.DownloadRequest{Blobs: 1, Stay: true})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	failed := make(chan error)
	go func() {
		_, err := probe.Beside(patient(t), &probepb.DoRequest{What: "wait"})
		failed <- err
	}()
	<-begun
	c.Close()
	c.Close()
	err = <-failed
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.False(t, objects.NotStarted(err))
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	_, err = probe.Add(patient(t), &probepb.AddRequest{})
	require.ErrorIs(t, err, client.ErrClosed)
	require.True(t, objects.NotStarted(err))
	_, err = probe.Chat(patient(t))
	require.ErrorIs(t, err, client.ErrClosed)
}
