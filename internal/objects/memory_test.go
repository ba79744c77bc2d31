package objects_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/testkit/probepb"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// hoardFor is how long each load of TestMemoryThatOneConnectionTakes lasts.
var hoardFor = flag.Duration("objects.hoard", time.Second, "how long each load on the memory of a node lasts; 60s is "+
	"the full run")

// hoardedEnv has the test process be the nodes that are loaded.
const hoardedEnv = "GOVERSE_TEST_HOARDED"

// mostHoarded is how much two nodes and etcd, in one process, may grow by the load of one connection.
const mostHoarded = 400 << 20

// hoard is an object that reads nothing and ends nothing, but for Add.
type hoard struct {
	probepb.UnimplementedProbeServer
}

// Add implements probepb.ProbeServer.
func (hoard) Add(context.Context, *probepb.AddRequest) (*probepb.AddResponse, error) {
	return &probepb.AddResponse{}, nil
}

// Echo implements probepb.ProbeServer.
func (hoard) Echo(ctx context.Context, _ *probepb.Blob) (*probepb.Blob, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Download implements probepb.ProbeServer.
func (hoard) Download(req *probepb.DownloadRequest, stream grpc.ServerStreamingServer[probepb.Blob]) error {
	for {
		if err := stream.Send(&probepb.Blob{Data: make([]byte, req.GetBytes())}); err != nil {
			return err
		}
	}
}

// Upload implements probepb.ProbeServer.
func (hoard) Upload(stream grpc.ClientStreamingServer[probepb.Blob, probepb.AddResponse]) error {
	<-stream.Context().Done()
	return stream.Context().Err()
}

// TestHoarded is no test of its own: it is the nodes of the next one, in a process.
func TestHoarded(t *testing.T) {
	if os.Getenv(hoardedEnv) == "" {
		t.Skip("run by TestMemoryThatOneConnectionTakes")
	}
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 64, 20*time.Millisecond, 2
	}))
	for range 2 {
		n := c.NewNode()
		objects.Register(n.Cluster(), probepb.RegisterProbeServer,
			func(context.Context, *objects.Object) (probepb.ProbeServer, error) { return hoard{}, nil },
			objects.Concurrent("Download", "Upload"))
		require.NoError(t, n.Start(patient(t)))
	}
	keys := func(i int) string {
		var all []string
		for k := range 16 {
			all = append(all, ownedBy(t, c.Node(i), fmt.Sprint("key", k, "/")))
		}
		return strings.Join(all, ",")
	}
	fmt.Printf("hoarded %s %s %s %s\n", c.Node(0).Address(), keys(0), keys(1), clustertest.Prefix)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is over
}

// hoarded is two nodes in another process.
type hoarded struct {
	pid        int
	address    string
	here, away []string // keys of objects at the node with the address, and at the other one
	prefix     string
}

func startHoarded(t *testing.T) *hoarded {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHoarded$", "-test.v")
	cmd.Env, cmd.Stderr = append(os.Environ(), hoardedEnv+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 5 && f[0] == "hoarded" {
			return &hoarded{pid: cmd.Process.Pid, address: f[1], here: strings.Split(f[2], ","),
				away: strings.Split(f[3], ","), prefix: f[4]}
		}
	}
	t.Fatal("the nodes did not start")
	return nil
}

// resident is how many bytes of memory the process has.
func (h *hoarded) resident(t *testing.T) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", h.pid))
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

func (h *hoarded) dial(t *testing.T) *grpc.ClientConn {
	conn, err := grpc.NewClient(h.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// others is the latency of calls on another connection until ctx ends, of which none may fail.
func (h *hoarded) others(t *testing.T, ctx context.Context) (p99 time.Duration) {
	client := probepb.NewProbeClient(h.dial(t))
	var took []time.Duration
	for i := 0; ctx.Err() == nil; i++ {
		keys := h.here
		if i%2 == 0 {
			keys = h.away
		}
		began := time.Now()
		_, err := client.Add(metadata.AppendToOutgoingContext(patient(t), objects.KeyHeader, "other"+keys[i%16]),
			&probepb.AddRequest{})
		require.NoError(t, err)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// hoards are what one connection asks for, and does not take: each is opened once by calls of a goroutine each.
var hoards = map[string]struct {
	times int
	open  func(ctx context.Context, h *hoarded, conn *grpc.ClientConn, i int)
}{
	"unread streams of 100 kB": {1000, func(ctx context.Context, h *hoarded, conn *grpc.ClientConn, i int) {
		keys := h.away
		if i%4 == 0 {
			keys = h.here
		}
		download(ctx, conn, keys[i%16], 100_000)
	}},
	"unread streams of 1 kB, forwarded": {300, func(ctx context.Context, h *hoarded, conn *grpc.ClientConn, i int) {
		download(ctx, conn, h.away[i%16], 1000)
	}},
	"streams whose method does not read": {300, func(ctx context.Context, h *hoarded, conn *grpc.ClientConn, i int) {
		stream, err := probepb.NewProbeClient(keyed{conn, append(h.here, h.away...)[i%32]}).Upload(ctx)
		for err == nil {
			err = stream.Send(&probepb.Blob{Data: make([]byte, 32<<10)})
		}
	}},
	"queued requests of 4 MiB": {300, func(ctx context.Context, h *hoarded, conn *grpc.ClientConn, i int) {
		_, _ = probepb.NewProbeClient(keyed{conn, append(h.here, h.away...)[i%32]}).Echo(ctx, large)
	}},
	"unfinished parts on ten links": {10, func(ctx context.Context, h *hoarded, conn *grpc.ClientConn, i int) {
		stream, err := objectspb.NewObjectsClient(conn).Link(ctx)
		if err != nil {
			return
		}
		_ = stream.Send(&objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: h.prefix}})
		for part := range 15 {
			for id := range 64 {
				call := &objectspb.Call{Id: uint64(id) + 1, Request: large.Data[:256<<10], More: true}
				if part == 0 {
					call.Method, call.Key = "/goverse.testkit.probe.Probe/Echo", []byte(h.here[0])
				}
				if stream.Send(&objectspb.LinkRequest{Calls: []*objectspb.Call{call}}) != nil {
					return
				}
			}
		}
	}},
}

var large = &probepb.Blob{Data: make([]byte, 4<<20-100)}

func download(ctx context.Context, conn *grpc.ClientConn, key string, bytes int64) {
	_, _ = probepb.NewProbeClient(keyed{conn, key}).Download(ctx, &probepb.DownloadRequest{Bytes: bytes})
}

// Not parallel: it measures latencies.
func TestMemoryThatOneConnectionTakes(t *testing.T) {
	for name, load := range hoards {
		t.Run(name, func(t *testing.T) {
			h := startHoarded(t)
			alone, stop := context.WithTimeout(t.Context(), max(*hoardFor/6, 300*time.Millisecond))
			defer stop()
			p99Alone := h.others(t, alone)
			before := h.resident(t)
			ctx, cancel := context.WithCancel(t.Context())
			conn := h.dial(t)
			var wg sync.WaitGroup
			for i := range load.times {
				wg.Go(func() { load.open(ctx, h, conn, i) })
			}
			during, done := context.WithTimeout(t.Context(), *hoardFor)
			defer done()
			most := before
			wg.Go(func() {
				for tick := time.NewTicker(20 * time.Millisecond); during.Err() == nil; <-tick.C {
					most = max(most, h.resident(t))
				}
			})
			p99 := h.others(t, during)
			cancel()
			wg.Wait()
			t.Logf("%d MB before, %d MB more at most; others' p99: %v alone, %v beside", before>>20, (most-before)>>20,
				p99Alone, p99)
			require.Less(t, most-before, int64(mostHoarded))
		})
	}
}
