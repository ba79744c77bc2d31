package cluster_test

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/nodetest"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

var outsiderRounds = flag.Int("outsider.rounds", 1, "how often etcd stands still beside each outsider")

// breakWatches watches the node at address in the name of another process, and disconnects without a goodbye, at
// the given pace until ctx ends. It returns the number of times.
func breakWatches(ctx context.Context, t *testing.T, address, instance string, every time.Duration) (broken int) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = conn.Close() }() // it holds no data
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		if breakWatch(ctx, conn, instance) == nil {
			broken++
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return broken
		}
	}
}

// breakWatch answers once, like a watcher, and disconnects.
func breakWatch(ctx context.Context, conn *grpc.ClientConn, instance string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := nodepb.NewNodeClient(conn).Watch(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&nodepb.WatchRequest{InstanceId: instance, Heartbeats: true}); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.Send(&nodepb.WatchRequest{InstanceId: instance, Proof: make([]byte, 64)}); err != nil {
		return err
	}
	if _, err := nodepb.NewNodeClient(conn).Identify(ctx, &nodepb.IdentifyRequest{}); err != nil {
		return err // the node has read everything sent before
	}
	return nil
}

// An outsider that opens and breaks watches causes no requests to etcd. If etcd stands still for a moment
// meanwhile, no node loses its leadership. This holds for an outsider in the name of an unknown process, and in
// the name of a member.
func TestOutsiderBreaksWatches(t *testing.T) {
	t.Parallel()
	for _, outsider := range []struct {
		name  string
		every time.Duration
		all   bool // at all nodes
		posed bool // in the name of a member
		stall time.Duration
	}{
		{"a stranger, at the leader", 500 * time.Millisecond, false, false, 800 * time.Millisecond},
		{"a stranger, at the leader, etcd away for long", 500 * time.Millisecond, false, false, 3 * time.Second},
		{"in a member's name, at the leader", 500 * time.Millisecond, false, true, 800 * time.Millisecond},
		{"in a member's name, at all nodes, often", 100 * time.Millisecond, true, true, 450 * time.Millisecond},
	} {
		t.Run(outsider.name, func(t *testing.T) {
			t.Parallel()
			c := clustertest.New(t, 3, clustertest.WithTTL(10))
			leader := c.WaitLeader()
			nodetest.AwaitWatched(t, c, 3, 2)
			nodes := []*clustertest.Node{leader}
			if outsider.all {
				nodes = c.Nodes()
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var wg sync.WaitGroup
			var mu sync.Mutex
			broken := 0
			for _, n := range nodes {
				name := "nobody"
				if outsider.posed {
					name = c.Node(2).Cluster().Node().InstanceID()
				}
				wg.Go(func() {
					b := breakWatches(ctx, t, n.Address(), name, outsider.every)
					mu.Lock()
					broken += b
					mu.Unlock()
				})
			}
			token, lost, asked := leader.Cluster().Leader().Token, 0, renewals(c)
			began := time.Now()
			for range *outsiderRounds {
				hold(ctx, 500*time.Millisecond)
				for _, n := range c.Nodes() {
					n.Faults().CutOff()
				}
				suspended := false
				for end := time.Now().Add(outsider.stall); time.Now().Before(end); hold(ctx, 10*time.Millisecond) {
					suspended = suspended || !leader.Cluster().Session().Valid()
				}
				for _, n := range c.Nodes() {
					n.Faults().Reconnect()
				}
				if now := c.WaitLeader().Cluster().Leader().Token; now != token || suspended {
					lost, token = lost+1, now
				}
			}
			cancel()
			wg.Wait()
			asked = renewals(c) - asked
			t.Logf("%d of %d leaders lost, %d watches broken, %.1f renewals a second", lost, *outsiderRounds, broken,
				float64(asked)/time.Since(began).Seconds())
			require.NotZero(t, broken, "the outsider breaks watches")
			require.Zero(t, lost)
			require.Zero(t, nodetest.CrashStats(c).WatchersLost, "no outsider is a watcher")
		})
	}
}

// hold waits for d, or until ctx ends.
func hold(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// renewals returns the number of session renewals of the nodes.
func renewals(c *clustertest.Cluster) (n int64) {
	for _, node := range c.Nodes() {
		st := node.Cluster().Stats()
		n += int64(st.Renewals.Count) + st.RenewalsFailed
	}
	return n
}
