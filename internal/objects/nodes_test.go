package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/probepb"
)

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// objectNodes returns a cluster with nodes that host probes.
func objectNodes(t *testing.T, nodes int, options ...objects.Option) (*clustertest.Cluster, *probepb.World) {
	return objectNodesIn(t, nodes, nil, options...)
}

// objectNodesIn is like objectNodes, in a world of its own.
func objectNodesIn(t *testing.T, nodes int, world []clustertest.Option,
	options ...objects.Option) (*clustertest.Cluster, *probepb.World) {
	c := clustertest.New(t, 0, append(world, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window = 64, 20*time.Millisecond
		cfg.Sharding.MinMembers = nodes
	}))...)
	w := &probepb.World{}
	for range nodes {
		addObjectNode(t, c, w, options...)
	}
	return c, w
}

func addObjectNode(t *testing.T, c *clustertest.Cluster, w *probepb.World,
	options ...objects.Option) *clustertest.Node {
	n := c.NewNode()
	w.Register(n.Cluster(), n.Address(), options...)
	require.NoError(t, n.Start(patient(t)))
	return n
}

func TestObjectsAreCalledFromEveryNode(t *testing.T) {
	c, w := objectNodes(t, 3)
	ctx := patient(t)
	for i := range 30 {
		key := fmt.Sprint("key", i)
		for j, n := range c.Nodes() {
			reply, err := probepb.NewProbeClient(n.Cluster().Objects().At(key)).Add(ctx, &probepb.AddRequest{Amount: 1})
			require.NoError(t, err)
			require.EqualValues(t, j+1, reply.GetSum(), "one object, wherever it is called")
		}
		require.Equal(t, 1, w.Active(key))
	}
}

func TestObjectsFromOutside(t *testing.T) {
	c, _ := objectNodes(t, 3)
	for i, n := range c.Nodes() {
		conn, err := grpc.NewClient(n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		client := probepb.NewProbeClient(conn)
		for k := range 10 {
			ctx := metadata.AppendToOutgoingContext(patient(t), objects.KeyHeader, fmt.Sprint("key", k))
			reply, err := client.Add(ctx, &probepb.AddRequest{Amount: 1})
			require.NoError(t, err)
			require.EqualValues(t, i+1, reply.GetSum())
			stream, err := client.Chat(ctx)
			require.NoError(t, err)
			for range 3 {
				require.NoError(t, stream.Send(&probepb.Blob{Data: []byte("hello")}))
				blob, err := stream.Recv()
				require.NoError(t, err)
				require.Equal(t, "hello", string(blob.GetData()))
			}
			require.NoError(t, stream.CloseSend())
			_, err = stream.Recv()
			require.ErrorIs(t, err, io.EOF)
		}
		_, err = client.Add(patient(t), &probepb.AddRequest{})
		require.Equal(t, codes.InvalidArgument, status.Code(err), err)
	}
}

// comeAndGo makes nodes join and stop three times while callers call. Each caller ends with ctx, and returns
// after each call.
func comeAndGo(t *testing.T, c *clustertest.Cluster, w *probepb.World,
	callers ...func(ctx context.Context, key string) error) {
	ctx, stop := context.WithCancel(patient(t))
	var wg sync.WaitGroup
	var calls atomic.Int64
	for g, call := range callers {
		wg.Go(func() {
			for k := g; ctx.Err() == nil; k++ {
				if err := call(ctx, fmt.Sprint("key", k%100)); err != nil && ctx.Err() == nil {
					t.Errorf("caller %d, key%d: %v", g, k%100, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for range 3 {
		n := addObjectNode(t, c, w, objects.Concurrent("Download"))
		before := calls.Load()
		require.Eventually(t, func() bool { return n.Cluster().Status().Shards.Serving > 0 && calls.Load() > before+500 },
			20*time.Second, time.Millisecond)
		require.NoError(t, n.Cluster().Stop(patient(t)))
	}
	stop()
	wg.Wait()
	t.Log("calls:", calls.Load())
	for k := range 100 {
		require.LessOrEqual(t, w.Active(fmt.Sprint("key", k)), 1)
	}
}

func TestCallsGoOnWhileNodesComeAndGo(t *testing.T) { callsGoOn(t) }

// The map reaches the nodes at different times, and so do the reports of what they have released.
func TestCallsGoOnWhereNodesAreFarFromEtcd(t *testing.T) {
	t.Parallel()
	callsGoOn(t, clustertest.WithTTL(5), clustertest.WithDistance(func(i int) time.Duration {
		return []time.Duration{0, 40 * time.Millisecond, 75 * time.Millisecond}[i%3] // one way
	}))
}

func callsGoOn(t *testing.T, world ...clustertest.Option) {
	c, w := objectNodesIn(t, 2, world, objects.Concurrent("Download"))
	at := c.Node(0).Cluster().Objects().At
	var callers []func(ctx context.Context, key string) error
	for range 4 {
		callers = append(callers, func(ctx context.Context, key string) error {
			_, err := probepb.NewProbeClient(at(key)).Add(ctx, &probepb.AddRequest{Amount: 1})
			return err
		})
	}
	conn := outside(t, c.Node(0))
	for range 4 {
		callers = append(callers, func(ctx context.Context, key string) error {
			_, err := probepb.NewProbeClient(keyed{conn, key}).Add(ctx, &probepb.AddRequest{Amount: 1})
			return err
		})
	}
	comeAndGo(t, c, w, callers...)
}

// A stream that was not started is opened again, unseen by its client. One that was started ends with an error
// that tells the client so.
func TestStreamsWhileNodesComeAndGo(t *testing.T) {
	c, w := objectNodes(t, 2, objects.Concurrent("Download"))
	conn := outside(t, c.Node(0))
	var cut atomic.Int64
	download := func(at func(key string) grpc.ClientConnInterface) func(ctx context.Context, key string) error {
		return func(ctx context.Context, key string) error {
			stream, err := probepb.NewProbeClient(at(key)).Download(ctx, &probepb.DownloadRequest{Blobs: 2, Bytes: 10})
			for err == nil {
				_, err = stream.Recv()
			}
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case objects.ReasonOf(err) == objects.ReasonMayHaveStarted:
				cut.Add(1)
				return nil
			}
			return err
		}
	}
	var callers []func(ctx context.Context, key string) error
	for range 4 {
		callers = append(callers, download(c.Node(0).Cluster().Objects().At),
			download(func(key string) grpc.ClientConnInterface { return keyed{conn, key} }))
	}
	comeAndGo(t, c, w, callers...)
	t.Log("cut off:", cut.Load())
}

// An object that is dropped does not wait for its streams.
func TestDroppedObjectEndsItsStreams(t *testing.T) {
	c, w := objectNodes(t, 2, objects.Concurrent("Download"))
	w.SetAction("panic", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		panic("oh")
	})
	w.SetAction("drop", func(_ context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		p.Object.Deactivate()
		return &probepb.DoResponse{}, nil
	})
	for _, what := range []string{"panic", "drop"} {
		for i, n := range c.Nodes() {
			key := fmt.Sprint(what, i)
			client := probepb.NewProbeClient(n.Cluster().Objects().At(key))
			stream, err := client.Download(patient(t), &probepb.DownloadRequest{Blobs: 1, Stay: true})
			require.NoError(t, err)
			_, err = stream.Recv()
			require.NoError(t, err)
			_, _ = client.Do(patient(t), &probepb.DoRequest{What: what})
			_, err = stream.Recv()
			require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
			require.Equal(t, objects.ReasonMayHaveStarted, objects.ReasonOf(err))
			_, err = client.Add(patient(t), &probepb.AddRequest{Amount: 1})
			require.NoError(t, err, "another activation")
		}
	}
}

func TestNotStarted(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0)
	w := &probepb.World{}
	n := c.NewNode()
	w.Register(n.Cluster(), n.Address())
	client := probepb.NewProbeClient(n.Cluster().Objects().At("a"))
	_, err := client.Add(patient(t), &probepb.AddRequest{})
	require.ErrorIs(t, err, cluster.ErrNotStarted)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.True(t, objects.NotStarted(err))
	require.NoError(t, n.Start(patient(t)))
	_, err = client.Add(patient(t), &probepb.AddRequest{})
	require.NoError(t, err)
	require.NoError(t, n.Cluster().Stop(patient(t)))
	_, err = client.Add(patient(t), &probepb.AddRequest{})
	require.True(t, errors.Is(err, cluster.ErrStopped))
}
