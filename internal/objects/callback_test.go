package objects_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/probepb"
)

var (
	calledBackDrains = flag.Int("calledbackdrains", 5, "how many drains there are while objects are called back")
	calledBackWithin = flag.Duration("calledbackwithin", 8*time.Second, "how long a drain or a call may take there; 1s "+
		"on a machine that does nothing else. One that waits in vain takes 10s")
)

// Objects call others, which call them back, while nodes are drained. The shard of the first object waits for
// its turn, so the call back goes to that shard's former owner.
func TestCallsBackWhileNodesAreDrained(t *testing.T) {
	c, w := objectNodesIn(t, 3, []clustertest.Option{clustertest.WithTTL(10)}, objects.Reentrant("Again"))
	w.SetAction("out", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		other := probepb.NewProbeClient(p.Object.At("other " + p.Object.Key()))
		return other.Do(ctx, &probepb.DoRequest{What: "back", Key: p.Object.Key()})
	})
	w.SetAction("back", func(ctx context.Context, p *probepb.Probe, req *probepb.DoRequest) (*probepb.DoResponse, error) {
		<-time.After(2 * time.Millisecond) // a drain may begin meanwhile
		return probepb.NewProbeClient(p.Object.At(req.GetKey())).Again(ctx, &probepb.DoRequest{What: "say"})
	})
	w.SetAction("say", func(_ context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		return &probepb.DoResponse{Said: p.Object.Key()}, nil
	})
	ctx, stop := context.WithCancel(patient(t))
	var calls, slow, cancelled, failed atomic.Int64
	var wg sync.WaitGroup
	for g := range 20 {
		at := c.Node(g % 3).Cluster().Objects().At
		wg.Go(func() {
			for k := g; ctx.Err() == nil; k += 7 {
				began := time.Now()
				key := fmt.Sprint("key", k%200)
				said, err := probepb.NewProbeClient(at(key)).Do(patient(t), &probepb.DoRequest{What: "out"})
				calls.Add(1)
				if time.Since(began) > *calledBackWithin {
					slow.Add(1)
				}
				switch {
				case err == nil:
					assert.Equal(t, key, said.GetSaid())
				case status.Code(err) == codes.Canceled:
					cancelled.Add(1)
				default:
					failed.Add(1)
					t.Log(err)
				}
			}
		})
	}
	var longest time.Duration
	for i := range *calledBackDrains {
		n := c.Node(i % 3)
		require.Eventually(t, func() bool { return n.Cluster().Status().Shards.Serving > 9 }, time.Minute,
			time.Millisecond)
		began := time.Now()
		_, err := n.Cluster().Drain(patient(t), n.Address())
		require.NoError(t, err)
		longest = max(longest, time.Since(began))
		_, err = n.Cluster().Undrain(patient(t), n.Address())
		require.NoError(t, err)
	}
	stop()
	wg.Wait()
	t.Logf("%d drains, the longest %v; calls %d, slow %d, cancelled %d, failed %d", *calledBackDrains, longest,
		calls.Load(), slow.Load(), cancelled.Load(), failed.Load())
	require.Less(t, longest, *calledBackWithin)
	require.Zero(t, slow.Load()+cancelled.Load()+failed.Load())
}
