package dashboard_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/examples/counter/counterpb"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/wait"
)

var past = flag.Duration("dashboard.past", time.Minute, "how long the cluster of the pictures runs before")

// slowCounter is a counter whose calls take a while.
type slowCounter struct {
	counterpb.UnimplementedCounterServer
	sum int64
}

// Add implements counterpb.CounterServer.
func (c *slowCounter) Add(ctx context.Context, r *counterpb.AddRequest) (*counterpb.AddResponse, error) {
	wait.For(ctx, 2*time.Millisecond)
	c.sum += r.GetAmount()
	return &counterpb.AddResponse{Sum: c.sum}, nil
}

// hostCounters has a node host the objects of the pictures.
func hostCounters(c *cluster.Cluster) {
	objects.Register(c, counterpb.RegisterCounterServer,
		func(context.Context, *objects.Object) (counterpb.CounterServer, error) { return &slowCounter{}, nil })
}

// clockSource has an event for every 50 ms since a time.
type clockSource struct{ began time.Time }

func (s clockSource) count() int64 { return int64(time.Since(s.began) / (50 * time.Millisecond)) }

func positionOf(after processor.Position) int64 {
	n, _ := strconv.ParseInt(string(after), 10, 64) // "" is the beginning
	return n
}

// Read implements processor.Source.
func (s clockSource) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	var all []processor.Event[int]
	for n := positionOf(after); n < s.count() && len(all) < limit; n++ {
		all = append(all, processor.Event[int]{Position: processor.Position(fmt.Sprintf("%09d", n+1))})
	}
	return all, nil
}

// Lag implements processor.Lagger.
func (s clockSource) Lag(_ context.Context, after processor.Position) (int64, error) {
	return s.count() - positionOf(after), nil
}

// live has a node of a cluster call objects and handle events until the test ends, and returns its page.
// After a third of the past a node drains for a while, and after two thirds the leadership is transferred.
func live(t *testing.T, c *clustertest.Cluster, node *clustertest.Node) http.Handler {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	views, err := processor.New(processor.Config[int]{Name: "views/orders", Source: clockSource{time.Now()},
		Checkpoint: &processor.Memory{}, LeaderLock: processor.Lock(node.Cluster().Locks(), "views/orders"),
		Handler: func(ctx context.Context, _ processor.Event[int]) error {
			wait.For(ctx, 20*time.Millisecond)
			return nil
		}})
	require.NoError(t, err)
	group := processor.Group{views}
	running.Go(func() { _ = group.Run(ctx) }) // ends with ctx
	for worker := range 4 {
		running.Go(func() {
			for i := worker; wait.For(ctx, time.Duration(10+8*((i/2000)%3))*time.Millisecond); i++ {
				key := strconv.Itoa(i % 300)
				if i%4 == 0 {
					key = "popular"
				}
				_, _ = counterpb.NewCounterClient(node.Cluster().Objects().At(key)).Add(ctx, &counterpb.AddRequest{Amount: 1})
			}
		})
	}
	h := httpapi.New(node.Cluster(), httpapi.Options{Version: "v1.4.0", Processors: group.Status,
		Admin: &httpapi.Admin{Authorize: httpapi.BearerToken("ops", token)}})
	for _, step := range []func(){
		func() {
			at := c.Node(3).Address()
			_, err := node.Cluster().Drain(etcdtest.Context(t), at)
			require.NoError(t, err)
			wait.For(ctx, *past/10)
			_, err = node.Cluster().Undrain(etcdtest.Context(t), at)
			require.NoError(t, err)
		},
		func() { require.NoError(t, node.Cluster().Transfer(etcdtest.Context(t), c.Node(3).Address())) },
		func() {},
	} {
		wait.For(ctx, *past*3/10)
		step()
	}
	return h
}
