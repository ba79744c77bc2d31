package objects_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/probepb"
)

var (
	many = flag.Int("objects.many", 10_000, "how many objects TestManyObjectsOnThreeNodes activates; 1000000 is the "+
		"full run")
	flight = flag.Int("objects.flight", 10_000, "how many calls TestCallsInFlight has wait for slow objects; 100000 is "+
		"the full run")
)

// plain is the implementation of all objects of a test.
type plain struct {
	probepb.UnimplementedProbeServer
	may chan struct{} // closed when calls of Do may end
}

// Echo implements probepb.ProbeServer.
func (p *plain) Echo(_ context.Context, b *probepb.Blob) (*probepb.Blob, error) { return b, nil }

// Do implements probepb.ProbeServer. It is slow.
func (p *plain) Do(ctx context.Context, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
	select {
	case <-p.may:
		return &probepb.DoResponse{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// three returns three nodes with objects of one implementation. Each of them serves shards.
func three(t *testing.T, impl *plain, idleAfter time.Duration) *clustertest.Cluster {
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 1024, 20*time.Millisecond, 3
		cfg.Objects.IdleAfter = idleAfter
	}))
	for range 3 {
		n := c.NewNode()
		objects.Register(n.Cluster(), probepb.RegisterProbeServer,
			func(context.Context, *objects.Object) (probepb.ProbeServer, error) { return impl, nil })
		require.NoError(t, n.Start(patient(t)))
	}
	require.Eventually(t, func() bool {
		var served int64
		for _, n := range c.Nodes() {
			served += n.Cluster().Status().Shards.Serving
		}
		return served == 1024
	}, 20*time.Second, time.Millisecond)
	return c
}

// inUse returns the bytes of the heap and of stacks in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // collects what finalizers freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// active returns the number of active objects on all nodes.
func active(c *clustertest.Cluster) (n int) {
	for _, node := range c.Nodes() {
		for _, s := range node.Cluster().Objects().Stats().Services {
			n += int(s.Active)
		}
	}
	return n
}

// Not parallel, because it measures memory.
func TestManyObjectsOnThreeNodes(t *testing.T) {
	idleAfter := 2*time.Second + time.Duration(*many)*100*time.Microsecond
	c := three(t, &plain{}, idleAfter)
	at := c.Node(0).Cluster().Objects().At
	call := func(i int) error {
		_, err := probepb.NewProbeClient(at(fmt.Sprint("object/", i))).Echo(t.Context(), &probepb.Blob{})
		return err
	}
	require.NoError(t, call(0)) // opens the links
	before, began := inUse(), time.Now()
	var wg sync.WaitGroup
	const callers = 64
	for caller := range callers {
		wg.Go(func() {
			for i := caller; i < *many; i += callers {
				if err := call(i); err != nil {
					t.Errorf("object %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if n := active(c); n == *many { // otherwise some are already idle
		each := float64(inUse()-before) / float64(*many)
		t.Logf("%d objects active after %v: %.0f bytes each", n, took.Round(time.Millisecond), each)
		require.Less(t, each, 700.0, "with the key, which is the test's, and stacks of goroutines that are kept")
	}
	require.Eventually(t, func() bool { return active(c) == 0 }, 3*idleAfter, 10*time.Millisecond)
	left := inUse() - before
	t.Logf("all of them idle after %v; %d bytes are left of each", time.Since(began).Round(time.Millisecond),
		left/int64(*many))
	require.Less(t, left, int64(*many)*10+4<<20)
}

// Thousands of calls wait for slow objects on other nodes. They take little memory, and do not delay other
// calls.
func TestCallsInFlight(t *testing.T) {
	t.Parallel()
	const slow = 200
	meter := pace.StartMeter(t)
	impl := &plain{may: make(chan struct{})}
	c := three(t, impl, time.Hour)
	at := c.Node(0).Cluster().Objects().At
	var others, keys []string
	for i := 0; len(keys) < slow || len(others) < 50; i++ {
		key := fmt.Sprint("object/", i)
		if owner, _ := c.Node(0).Cluster().Objects().Find(key); owner == c.Node(0).Address() {
			continue
		}
		if len(others) < 50 {
			others = append(others, key)
		} else {
			keys = append(keys, key)
		}
	}
	latencies := func() (p50, p99 time.Duration) {
		var all []time.Duration
		for i := range 3000 {
			began := time.Now()
			_, err := probepb.NewProbeClient(at(others[i%len(others)])).Echo(patient(t), &probepb.Blob{})
			require.NoError(t, err)
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all[len(all)/2], all[len(all)*99/100]
	}
	_, _ = latencies() // opens links and activates objects
	meter.StartLap()
	p50Alone, p99Alone := latencies()
	slowdownAlone := meter.Slowdown()
	before := inUse()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range *flight {
		wg.Go(func() {
			if _, err := probepb.NewProbeClient(at(keys[i%slow])).Do(ctx, &probepb.DoRequest{}); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	waiting := func() (n int) {
		for _, node := range c.Nodes() {
			n += int(node.Cluster().Objects().Stats().Services[0].Waiting)
		}
		return n
	}
	require.Eventually(t, func() bool { return waiting() == *flight-slow }, time.Minute, 10*time.Millisecond)
	each := (inUse() - before) / int64(*flight)
	meter.StartLap()
	p50, p99 := latencies()
	slower := max(1, meter.Slowdown()/slowdownAlone) // the machine, by other programs
	t.Logf("%d calls wait for %d objects: %d bytes each, with the goroutines of their callers; calls to other objects: "+
		"p50 %v, p99 %v before; p50 %v, p99 %v beside, on a machine that became slower by a factor of %.1f", *flight, slow,
		each, p50Alone, p99Alone, p50, p99, slower)
	require.Less(t, each, int64(16<<10))
	bound := time.Duration(slower * float64(3*p50Alone+10*time.Millisecond))
	require.Less(t, p50, bound) // p99 depends on the machine
	close(impl.may)
	wg.Wait()
}
