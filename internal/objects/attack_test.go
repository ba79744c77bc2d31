package objects_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

var (
	attackedCalls = flag.Int("attackedcalls", 4000,
		"how many calls are made beside an outsider, while nodes are drained")
	slowest = flag.Duration("slowest", 8*time.Second,
		"how long a call may take beside an outsider; 200ms on a machine that does nothing else. One that hangs takes 10s")
)

// forged adds the headers of an outsider's stream, with every claim that an owner could believe.
func forged(ctx context.Context, prefix string) context.Context {
	turns := binary.BigEndian.AppendUint64(nil, math.MaxUint64)
	return metadata.AppendToOutgoingContext(ctx, "goverse-generation", strconv.FormatInt(math.MaxInt64, 10),
		"goverse-forwarded", "1", "goverse-prefix-bin", prefix, "goverse-chain-bin", string(turns))
}

// outsider keeps streams waiting for their turns in every shard, at every node, and breaks them, until ctx
// ends.
func outsider(t *testing.T, ctx context.Context, c *clustertest.Cluster, shards int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, n := range c.Nodes() {
		conn := outside(t, n)
		wg.Go(func() {
			pause := time.NewTicker(time.Millisecond)
			defer pause.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				one, cancel := context.WithTimeout(forged(ctx, clustertest.Prefix), 20*time.Millisecond)
				client := probepb.NewProbeClient(keyed{conn, fmt.Sprint("attacked ", i%(8*shards))})
				for range 2 { // one has the turn, and one waits for it
					if stream, err := client.Chat(one); err == nil {
						_ = stream.Send(&probepb.Blob{}) // it may have ended
					}
				}
				wg.Go(func() { // the next streams are opened meanwhile
					<-one.Done()
					cancel()
				})
				<-pause.C
			}
		})
	}
}

// drained holds the results of callers while one node after the other was drained.
type drained struct {
	calls, slow, failed, drains int64
	longest, longestDrain       time.Duration
}

// leastDrains is the least number of drains.
const leastDrains = 4

// underDrains calls objects from every node, while nodes are drained in turn, until enough calls were made.
func underDrains(t *testing.T, c *clustertest.Cluster, calls int64) (saw drained) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	var made, drains, slow, failed atomic.Int64
	more := func() bool { return (made.Load() < calls || drains.Load() < leastDrains) && ctx.Err() == nil }
	var mu sync.Mutex
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	for g := range 20 {
		at := c.Node(g % len(c.Nodes())).Cluster().Objects().At
		wg.Go(func() {
			pause := time.NewTicker(2 * time.Millisecond)
			defer pause.Stop()
			for k := g; more(); k++ {
				made.Add(1)
				began := time.Now()
				_, err := probepb.NewProbeClient(at(fmt.Sprint("key", k%200))).Add(ctx, &probepb.AddRequest{Amount: 1})
				took := time.Since(began)
				if err != nil {
					failed.Add(1)
					t.Log(err)
				}
				if took > *slowest {
					slow.Add(1)
				}
				mu.Lock()
				saw.longest = max(saw.longest, took)
				mu.Unlock()
				<-pause.C
			}
		})
	}
	for ; more(); drains.Add(1) {
		n := c.Node(int(drains.Load()) % len(c.Nodes()))
		began := time.Now()
		_, err := n.Cluster().Drain(ctx, n.Address())
		require.NoError(t, err)
		saw.longestDrain = max(saw.longestDrain, time.Since(began))
		_, err = n.Cluster().Undrain(ctx, n.Address())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return n.Cluster().Status().Shards.Serving > 0 }, time.Minute,
			time.Millisecond)
	}
	wg.Wait()
	saw.calls, saw.slow, saw.failed, saw.drains = made.Load(), slow.Load(), failed.Load(), drains.Load()
	return saw
}

// The claims in the headers of an outsider's stream apply to that stream only. No other call waits because of
// them.
func TestOutsiderHoldsUpNobody(t *testing.T) {
	c := clustertest.New(t, 0, clustertest.WithTTL(10), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 16, 20*time.Millisecond, 3
		cfg.Sharding.MovesPerMinute = 100000
	}))
	w := &probepb.World{}
	for range 3 {
		addObjectNode(t, c, w, objects.Concurrent("Download"))
	}
	for _, n := range c.Nodes() { // each node knows the map
		ownedBy(t, n, "key")
	}
	alone := underDrains(t, c, int64(*attackedCalls)/4)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		outsider(t, ctx, c, 16)
	}()
	meter := pace.StartMeter(t)
	beside := underDrains(t, c, int64(*attackedCalls))
	bound := meter.Scale(8 * time.Second)
	stop()
	<-ended
	t.Logf("alone %+v, beside an outsider %+v", alone, beside)
	require.Less(t, beside.longestDrain, bound, "one that waits in vain takes 10s")
	require.Zero(t, beside.slow)
	require.Zero(t, beside.failed)
}

// While a shard is handed over, which may take long, calls wait at its next owner, and are made as soon as that
// has the shard. That also holds if an outsider made a call wait there before the map assigned the shard.
func TestOutsiderBeforeALongHandover(t *testing.T) {
	t.Parallel()
	c, w := objectNodes(t, 2)
	from, to := c.Node(0), c.Node(1)
	key := ownedBy(t, from, "key")
	begun, end := make(chan struct{}), make(chan struct{})
	w.SetAction("wait", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		close(begun)
		<-end
		return &probepb.DoResponse{}, nil
	})
	running, waited, drained := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := probepb.NewProbeClient(from.Cluster().Objects().At(key)).Do(patient(t),
			&probepb.DoRequest{What: "wait"})
		running <- err
	}()
	<-begun
	forger, err := objectspb.NewObjectsClient(outside(t, to)).Link(patient(t))
	require.NoError(t, err)
	require.NoError(t, forger.Send(&objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: clustertest.Prefix},
		Calls: []*objectspb.Call{{Id: 1, Method: probepb.Probe_Add_FullMethodName, Key: []byte(key),
			Generation: math.MaxInt64}}}))
	require.Eventually(t, func() bool { return to.Cluster().Objects().Stats().Services[0].Waiting == 1 }, time.Minute,
		time.Millisecond)
	go func() {
		_, err := from.Cluster().Drain(patient(t), from.Address())
		drained <- err
	}()
	require.Eventually(t, func() bool {
		owner, _ := to.Cluster().Shards().Owner(key)
		return owner.Address == to.Address()
	}, 10*time.Second, time.Millisecond)
	go func() {
		_, err := probepb.NewProbeClient(to.Cluster().Objects().At(key)).Add(patient(t), &probepb.AddRequest{})
		waited <- err
	}()
	<-time.After(1500 * time.Millisecond) // longer than an outsider's claims are valid
	require.Empty(t, waited)
	close(end)
	require.NoError(t, <-running)
	select {
	case err := <-waited:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Error("the call goes on waiting for a shard that is served")
	}
	require.NoError(t, <-drained)
}
