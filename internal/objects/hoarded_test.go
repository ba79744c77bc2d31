package objects_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
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
	"github.com/goverse/goverse/internal/test/probepb"
)

var hoardProfile = flag.String("objects.hoardprofile", "", "file for a profile of the processor time of the nodes "+
	"that TestMemoryThatOneConnectionTakes loads")

// hoardedEnv makes the test process run the nodes that are loaded.
const hoardedEnv = "GOVERSE_TEST_HOARDED"

// hoard is an object that reads nothing and returns from no call except Add.
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

// holding is the state of the nodes.
type holding struct {
	Waiting, Limit [2]int64 // in bytes, by node; Limit is for all connections together
	Refused        int64    // for lack of bytes
	Calls          int64    // calls that wait for their turn, or have it
	Heap           uint64   // bytes of the process's heap in use; only after "collect"
}

// TestHoarded is no test of its own. It runs the nodes of the next test in a process of their own. It answers
// each line of its input with a line about their state; "collect" first frees all memory that is not in use.
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
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		var now holding
		if asked.Text() == "collect" {
			debug.FreeOSMemory()
			debug.FreeOSMemory() // pools keep their contents for one collection
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			now.Heap = mem.HeapAlloc
		}
		for i, n := range c.Nodes() {
			st := n.Cluster().Objects().Stats()
			now.Waiting[i], now.Limit[i] = st.WaitingBytes, st.MaxWaitingBytes
			now.Refused += st.RefusedForBytes
			now.Calls += int64(st.Running)
			for _, s := range st.Services {
				now.Calls += s.Waiting
			}
		}
		line, err := json.Marshal(now)
		require.NoError(t, err)
		fmt.Printf("holding %s\n", line)
	}
}

// hoarded is two nodes in another process.
type hoarded struct {
	pid        int
	address    string
	here, away []string // keys of objects at the node with the address, and at the other one
	prefix     string
	in         io.WriteCloser
	out        *bufio.Scanner
}

func startHoarded(t *testing.T) *hoarded {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHoarded$", "-test.v", "-test.cpuprofile="+*hoardProfile)
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
	h := &hoarded{pid: cmd.Process.Pid, in: in, out: bufio.NewScanner(out)}
	f := strings.Fields(h.line(t, "hoarded"))
	h.address, h.here, h.away, h.prefix = f[0], strings.Split(f[1], ","), strings.Split(f[2], ","), f[3]
	return h
}

// line returns the next line that begins with that word, without the word.
func (h *hoarded) line(t *testing.T, word string) string {
	for h.out.Scan() {
		if rest, ok := strings.CutPrefix(h.out.Text(), word+" "); ok {
			return rest
		}
	}
	t.Fatal("the process of the nodes has ended")
	return ""
}

// holds returns the state of the nodes. With collect, memory that is not in use is first returned to the
// system.
func (h *hoarded) holds(t *testing.T, collect bool) (now holding) {
	what := "figures"
	if collect {
		what = "collect"
	}
	_, err := fmt.Fprintln(h.in, what)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(h.line(t, "holding")), &now))
	return now
}

// resident returns the resident memory of the process in bytes.
func (h *hoarded) resident(t *testing.T) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", h.pid))
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// processor returns the processor time that the process has used.
func (h *hoarded) processor(t *testing.T) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(after) // from the third field on
	var ticks int64
	for _, text := range f[11:13] {
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func (h *hoarded) dial(t *testing.T, opts ...grpc.DialOption) *grpc.ClientConn {
	conn, err := grpc.NewClient(h.address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// calls summarizes the calls of one caller, made one after the other.
type calls struct {
	made         int
	p99, longest time.Duration
}

// String returns the summary for the log.
func (c calls) String() string {
	return fmt.Sprintf("%d calls, p99 %v, longest %v", c.made, c.p99, c.longest)
}

// others makes calls on a connection of its own for a while. No call may fail.
func (h *hoarded) others(t *testing.T, d time.Duration) calls {
	client := probepb.NewProbeClient(h.dial(t))
	ctx, cancel := context.WithTimeout(t.Context(), d+30*time.Second)
	defer cancel()
	var took []time.Duration
	for i, end := 0, time.Now().Add(d); time.Now().Before(end); i++ {
		keys := h.here
		if i%2 == 0 {
			keys = h.away
		}
		began := time.Now()
		_, err := client.Add(metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, "other"+keys[i%16]),
			&probepb.AddRequest{})
		require.NoError(t, err)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return calls{len(took), took[len(took)*99/100], took[len(took)-1]}
}

// observe calls f often until stop is called.
func observe(f func()) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			f()
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}
