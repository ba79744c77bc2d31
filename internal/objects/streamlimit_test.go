package objects_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
)

// bareNode starts a node that hosts probes, with the etcd at an endpoint.
func bareNode(t *testing.T, endpoint string, nodes int, w *probepb.World, opts ...grpc.ServerOption) *cluster.Cluster {
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0", ServerOptions: opts})
	require.NoError(t, err)
	cfg := cluster.Config{Client: etcdtest.Dial(t, endpoint), LeaderElectionTTL: 5}
	cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 16, 20*time.Millisecond, nodes
	cfg.Sharding.MovesPerMinute = 100000
	c, err := cluster.NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	w.Register(c, n.AdvertiseAddress(), objects.Concurrent("Download"))
	require.NoError(t, c.Start(patient(t)))
	t.Cleanup(func() { require.NoError(t, c.Stop(etcdtest.Context(t))) })
	return c
}

// serving returns the number of shards that the nodes serve together.
func serving(nodes []*cluster.Cluster) (n int) {
	for _, c := range nodes {
		n += int(c.Status().Shards.Serving)
	}
	return n
}

// A program may limit the streams of a connection. Forwarded streams to a node then wait for one another, but
// unary calls do not wait for them, because links have a connection of their own.
func TestStreamsThatStayOpenHoldUpNoUnaryCall(t *testing.T) {
	t.Parallel()
	const limit = 2
	etcd, w := etcdtest.Start(t), &probepb.World{}
	var nodes []*cluster.Cluster
	for range 2 {
		nodes = append(nodes, bareNode(t, etcd.Endpoint(), 2, w, grpc.MaxConcurrentStreams(limit)))
	}
	require.Eventually(t, func() bool { return serving(nodes) == 16 }, time.Minute, time.Millisecond)
	key := ""
	for i := 0; key == ""; i++ {
		owner, ok := nodes[0].Shards().Owner(fmt.Sprint("key", i))
		require.True(t, ok)
		if owner.Address == nodes[1].Node().AdvertiseAddress() {
			key = fmt.Sprint("key", i)
		}
	}
	client := probepb.NewProbeClient(nodes[0].Objects().At(key))
	streaming, end := context.WithCancel(patient(t))
	for range limit {
		stream, err := client.Download(streaming, &probepb.DownloadRequest{Blobs: 1, Stay: true})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
	}
	third := make(chan error, 1)
	waiting, giveUp := context.WithCancel(patient(t))
	go func() {
		_, err := client.Download(waiting, &probepb.DownloadRequest{Blobs: 1})
		third <- err
	}()
	var longest time.Duration
	for range 100 {
		began := time.Now()
		_, err := client.Add(patient(t), &probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
		longest = max(longest, time.Since(began))
	}
	t.Logf("longest of 100 unary calls beside %d streams: %v", limit, longest)
	require.Empty(t, third, "another stream waits, for so many are open as may be")
	giveUp() // before the others end, which would let it begin
	require.Equal(t, codes.Canceled, status.Code(<-third))
	end()
}

// A connection with as many open streams as the node's budget allows gets an error that names the option to
// raise. Other connections have their own share.
func TestStreamsBeyondTheBudget(t *testing.T) {
	t.Parallel()
	c, _ := objectNodesIn(t, 1, []clustertest.Option{clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Objects.MaxWaitingBytes = 16 << 20
	})})
	one, another := outside(t, c.Node(0)), outside(t, c.Node(0))
	ctx, end := context.WithCancel(patient(t))
	defer end()
	opened := 0
	open := func(conn *grpc.ClientConn) error {
		stream, err := probepb.NewProbeClient(keyed{conn, fmt.Sprint("key", opened)}).Chat(ctx)
		require.NoError(t, err)
		_ = stream.Send(&probepb.Blob{Data: []byte("hello")}) // receiving returns the reason for a failure
		_, err = stream.Recv()
		return err
	}
	var err error
	for ; err == nil; opened++ {
		err = open(one)
	}
	require.InDelta(t, 8<<20/(72<<10), opened, 10, "half of the budget")
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "Objects.MaxWaitingBytes")
	require.True(t, objects.NotStarted(err))
	require.NoError(t, open(another))
}
