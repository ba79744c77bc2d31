package objects_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/probepb"
)

// block arranges an action that reports its beginning, and continues when the test permits.
func block(w *probepb.World, what string, then probepb.Action) (begun, may chan struct{}) {
	begun, may = make(chan struct{}), make(chan struct{})
	w.SetAction(what, func(ctx context.Context, p *probepb.Probe, req *probepb.DoRequest) (*probepb.DoResponse, error) {
		close(begun)
		<-may
		return then(ctx, p, req)
	})
	return begun, may
}

// The last node stops while a call waits for its turn. No node is left to write a map that names another owner,
// and the node does not wait for the deadline of that call.
func TestStopOfTheLastNode(t *testing.T) {
	c, w := objectNodes(t, 1)
	n := c.Node(0)
	conn, err := grpc.NewClient(n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	begun, may := block(w, "wait", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		return &probepb.DoResponse{}, nil
	})
	ctx := metadata.AppendToOutgoingContext(patient(t), objects.KeyHeader, "k")
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := probepb.NewProbeClient(conn).Do(ctx, &probepb.DoRequest{What: "wait"})
		first <- err
	}()
	<-begun
	go func() {
		_, err := probepb.NewProbeClient(conn).Add(ctx, &probepb.AddRequest{})
		second <- err
	}()
	require.Eventually(t, func() bool { return n.Cluster().Objects().Stats().Services[0].Waiting == 1 }, time.Minute,
		time.Millisecond)
	meter := pace.StartMeter(t)
	stopped, began := make(chan error, 1), time.Now()
	go func() { stopped <- n.Cluster().Stop(patient(t)) }()
	require.Eventually(t, func() bool { return n.Cluster().Status().Shards.Serving == 0 }, time.Minute,
		time.Millisecond)
	close(may)
	require.NoError(t, <-first, "what runs is waited for")
	require.True(t, objects.NotStarted(<-second))
	require.NoError(t, <-stopped)
	require.Less(t, time.Since(began), meter.Scale(9*time.Second), "its deadline is 30 s away")
}

// A turn calls an object of its own shard while the shard is handed over, which waits for that turn.
func TestCallWithinAShardThatIsHandedOver(t *testing.T) {
	c, w := objectNodes(t, 2)
	mate := ""
	for i := 0; mate == ""; i++ {
		if key := fmt.Sprint("mate ", i); shard.Of(key, 64) == shard.Of("k", 64) {
			mate = key
		}
	}
	begun, may := block(w, "call", func(ctx context.Context, p *probepb.Probe,
		_ *probepb.DoRequest) (*probepb.DoResponse, error) {
		_, err := probepb.NewProbeClient(p.Object.At(mate)).Add(ctx, &probepb.AddRequest{})
		return &probepb.DoResponse{}, err
	})
	require.Eventually(t, func() bool {
		return c.Node(0).Cluster().Status().Shards.Serving == 32 && c.Node(1).Cluster().Status().Shards.Serving == 32
	}, 10*time.Second, time.Millisecond)
	owner, _ := c.Node(0).Cluster().Objects().Find("k")
	leaves, stays := c.Node(0), c.Node(1)
	if leaves.Address() != owner {
		leaves, stays = stays, leaves
	}
	ended := make(chan error, 1)
	go func() {
		_, err := probepb.NewProbeClient(stays.Cluster().Objects().At("k")).Do(patient(t), &probepb.DoRequest{What: "call"})
		ended <- err
	}()
	<-begun
	meter := pace.StartMeter(t)
	stopped, began := make(chan error, 1), time.Now()
	go func() { stopped <- leaves.Cluster().Stop(patient(t)) }()
	require.Eventually(t, func() bool {
		owner, _ := leaves.Cluster().Objects().Find("k")
		return owner == stays.Address()
	}, 10*time.Second, time.Millisecond)
	close(may)
	require.NoError(t, <-ended)
	require.NoError(t, <-stopped)
	require.Less(t, time.Since(began), meter.Scale(9*time.Second), "the drain time-out is 10 s")
	_, err := probepb.NewProbeClient(stays.Cluster().Objects().At(mate)).Add(patient(t), &probepb.AddRequest{})
	require.NoError(t, err)
}
