package cluster_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/nodetest"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
	objectspb "github.com/goverse/goverse/proto/goverse/objects/v1"
)

var outsiderEach = flag.Duration("outsider.each", 200*time.Millisecond, "how long each attack of an outsider lasts")

// lines counts the lines of a log.
type lines struct{ n atomic.Int64 }

// Write counts one line.
func (l *lines) Write(b []byte) (int, error) {
	l.n.Add(1)
	return len(b), nil
}

// etcdServed returns the number of requests and streams that the etcd in this process has served.
func etcdServed(t *testing.T) (n float64) {
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "grpc_server_started_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// streamOnce opens a stream, sends and receives once, and disconnects.
func streamOnce[Req, Res any](ctx context.Context, open func(context.Context,
	...grpc.CallOption) (grpc.BidiStreamingClient[Req, Res], error), req *Req) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(req); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// inUse returns the used bytes of the heap, including garbage.
func inUse() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// watchHeap returns a function that ends the watch. It returns the maximum growth of the heap in the meantime,
// and how much of that is still in use.
func watchHeap() (stop func() (most, left int64)) {
	runtime.GC()
	before, most := inUse(), int64(0)
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, inUse()-before)
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func() (int64, int64) {
		close(end)
		wg.Wait()
		runtime.GC()
		return most, inUse() - before
	}
}

const (
	// mostGrown limits the growth of this process's heap, which holds two nodes, etcd and the outsider. Most of
	// it is garbage, because the outsider calls as fast as it can. The budget allows one connection 48 MiB.
	mostGrown = 128 << 20
	// mostLeft limits the growth that remains.
	mostLeft = 16 << 20
)

// Measures the effects of one connection from outside, without a certificate, as fast as it can: requests to
// etcd, lost sessions, lines in the log, memory. docs/security.md has the results. It must not run in parallel
// with other tests, because etcd's counters are shared.
func TestWhatAnOutsiderCosts(t *testing.T) {
	var said lines
	c := clustertest.New(t, 2, clustertest.WithTTL(10), clustertest.WithLogger(hclog.New(&hclog.LoggerOptions{
		Output: &said, Level: hclog.Info})))
	leader := c.WaitLeader()
	nodetest.AwaitWatched(t, c, 2, 1)
	web := httptest.NewServer(httpapi.New(leader.Cluster(), httpapi.Options{}))
	defer web.Close()
	conn, err := grpc.NewClient(leader.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	node, objects := nodepb.NewNodeClient(conn), objectspb.NewObjectsClient(conn)
	posed := c.Node(1).Cluster().Node().InstanceID()
	get := func(path string) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+fmt.Sprintf(path, i), nil)
			if err != nil {
				return err
			}
			resp, err := web.Client().Do(req)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // and disconnects
			return err
		}
	}
	for _, outsider := range []struct {
		name string
		call func(ctx context.Context, i int) error
		etcd float64 // allowed requests to etcd per second
	}{
		{"nothing", func(ctx context.Context, _ int) error { hold(ctx, 50*time.Millisecond); return nil }, 0},
		{"Node/Identify", func(ctx context.Context, _ int) error {
			_, err := node.Identify(ctx, &nodepb.IdentifyRequest{})
			return err
		}, 0},
		{"Node/Watch, broken", func(ctx context.Context, _ int) error {
			return breakWatch(ctx, conn, "nobody")
		}, 0},
		{"Node/Watch, broken in a member's name", func(ctx context.Context, _ int) error {
			return breakWatch(ctx, conn, posed)
		}, 0},
		{"Objects/Link", func(ctx context.Context, i int) error {
			return streamOnce(ctx, objects.Link, &objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: clustertest.Prefix},
				Calls: []*objectspb.Call{{Id: 1, Method: "/x/y", Key: fmt.Append(nil, i), Generation: 1 << 62}}})
		}, 0},
		{"Objects/WatchRoutes", func(ctx context.Context, _ int) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := objects.WatchRoutes(ctx, &objectspb.WatchRoutesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}, 0},
		{"Objects/WatchRoutes, kept", func(ctx context.Context, _ int) error {
			stream, err := objects.WatchRoutes(ctx, &objectspb.WatchRoutesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}, 0},
		{"Objects/Link, kept", func(ctx context.Context, i int) error {
			stream, err := objects.Link(ctx)
			if err != nil {
				return err
			}
			_ = stream.Send(&objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: clustertest.Prefix},
				Calls: []*objectspb.Call{{Id: 1, Method: "/x/y", Key: fmt.Append(nil, i), Request: make([]byte, 200<<10),
					More: true}}})
			_, err = stream.Header()
			return err
		}, 0},
		{"Objects/Describe", func(ctx context.Context, _ int) error {
			_, err := objects.Describe(ctx, &objectspb.DescribeRequest{})
			return err
		}, 0},
		{"health", func(ctx context.Context, _ int) error {
			_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
			return err
		}, 0},
		{"reflection", func(ctx context.Context, _ int) error {
			return streamOnce(ctx, reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo,
				&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		}, 0},
		{"GET /cluster/leader", get("/cluster/leader?%d"), 2},
		{"GET /cluster/nodes", get("/cluster/nodes?limit=1&after=%d"), 0},
		{"GET /readyz", get("/readyz?%d"), 0},
		{"GET /cluster/elections, another page each time", get("/cluster/elections?after=%d"), 2 * (64 + 2*32)},
		{"GET /cluster/events", get("/cluster/events?limit=1&x=%d"), 4},
		{"POST /cluster/admin", func(ctx context.Context, _ int) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/cluster/admin/resign", nil)
			if err != nil {
				return err
			}
			resp, err := web.Client().Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}, 0},
	} {
		var calls, failed int
		var asked float64
		var most, left, wrote, lost int64
		for range 3 { // again if the process stood still for that long
			ctx, cancel := context.WithTimeout(context.Background(), *outsiderEach)
			asked, wrote, lost = etcdServed(t), said.n.Load(), nodetest.CrashStats(c).WatchersLost
			stop := watchHeap()
			for calls, failed = 0, 0; ctx.Err() == nil; calls++ {
				if outsider.call(ctx, calls) != nil {
					failed++
				}
			}
			most, left = stop()
			cancel()
			asked, wrote = etcdServed(t)-asked, said.n.Load()-wrote
			if failed < calls {
				break
			}
		}
		t.Logf("%-50s %6d calls (%d failed), %3.0f requests at etcd, %d lines, %d KiB more at most, %d KiB in the end",
			outsider.name, calls, failed, asked, wrote, most>>10, left>>10)
		require.Less(t, failed, calls, outsider.name)
		require.LessOrEqual(t, asked, outsider.etcd+20, outsider.name) // nodes and event log need these anyway
		require.LessOrEqual(t, wrote, int64(2), outsider.name)
		require.Equal(t, lost, nodetest.CrashStats(c).WatchersLost, outsider.name)
		require.Less(t, most, int64(mostGrown), outsider.name)
		require.Less(t, left, int64(mostLeft), outsider.name)
	}
	require.True(t, leader.IsLeader())
}
