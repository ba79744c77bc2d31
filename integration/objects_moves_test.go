//go:build unix

package integration

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/probepb"
)

var (
	objectsFor = flag.Duration("objects.for", 500*time.Millisecond,
		"how long the load goes on before, between and after the moves of TestObjectsMoveUnderLoad; 20s in the full run")
	objectsRate = flag.Int("objects.rate", 2000, "calls per second in TestObjectsMoveUnderLoad")
)

const (
	movedCounters = 1000
	// One in outsideEach calls comes from outside, and one in namedEach has a name.
	outsideEach, namedEach = 8, 4
	// concurrentCalls limits the calls in flight.
	concurrentCalls = 256
	// warmUp is the time for calls that first activate their object.
	warmUp = 700 * time.Millisecond
	// movesP99 is a generous limit for the delay that moves cause; the log has the actual one.
	movesP99 = 3 * time.Second
)

// call is a call that has ended.
type call struct {
	due  time.Time // when it should start
	took time.Duration
}

// steadyLoad makes calls at a steady rate. A delayed call delays no other, and its duration counts from the
// time it was due.
type steadyLoad struct {
	w       *objectWorld
	ledger  ledger
	keys    []string
	clients []probepb.ProbeClient
	staying map[string]probepb.ProbeClient // clients outside of the cluster, by the node that they call

	forwarded, failed atomic.Int64
	mu                sync.Mutex
	calls             []call
}

// outside returns a plain gRPC client of a worker.
func (w *objectWorld) outside(worker *objectsWorker) probepb.ProbeClient {
	conn, err := grpc.NewClient(worker.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, conn.Close()) })
	return probepb.NewProbeClient(conn)
}

// run makes calls until ctx ends, and waits for those in flight.
func (l *steadyLoad) run(ctx context.Context, rate int) {
	type job struct {
		number int
		due    time.Time
	}
	jobs := make(chan job, 1<<16)
	var wg sync.WaitGroup
	for range concurrentCalls {
		wg.Go(func() {
			for j := range jobs {
				l.make(j.number, j.due)
			}
		})
	}
	began := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; <-tick.C {
		for due := began; ; n++ {
			due = began.Add(time.Duration(n) * time.Second / time.Duration(rate))
			if due.After(time.Now()) {
				break
			}
			jobs <- job{n, due}
		}
	}
	close(jobs)
	wg.Wait()
}

// make makes one call.
func (l *steadyLoad) make(n int, due time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), workPatience)
	defer cancel()
	// 7919 is coprime to the number of keys and to the numbers that select the kinds of calls.
	i := n * 7919 % len(l.keys)
	key, client := l.keys[i], l.clients[i]
	if n%outsideEach == 0 {
		owner := l.w.owner(key)
		for address, other := range l.staying {
			if address != owner {
				client = other
				ctx = metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, key)
				l.forwarded.Add(1)
				break
			}
		}
	}
	request := &probepb.AddRequest{Amount: 1}
	if n/outsideEach%namedEach == 0 {
		request.Request = fmt.Sprint("call ", n)
	}
	reply, err := client.Add(ctx, request)
	took := time.Since(due)
	if err != nil {
		if l.failed.Add(1) <= 10 {
			l.w.Errorf("call %d of %s, after %v: %v", n, key, took, err)
		}
		return
	}
	l.ledger.acknowledged(key, reply.GetSum())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call{due, took})
}

// during returns the durations of the calls that were due in a period.
func (l *steadyLoad) during(from, to time.Time) (all []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if !c.due.Before(from) && c.due.Before(to) {
			all = append(all, c.took)
		}
	}
	return all
}

// A third node joins two and leaves again, as in a deployment, while counters are called. No call fails, and
// each increment takes effect once.
func TestObjectsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	w := newObjectWorld(t, 10, "")
	workers := w.start(2)
	l := &steadyLoad{w: w, keys: counterKeys(movedCounters), staying: map[string]probepb.ProbeClient{}}
	for _, key := range l.keys {
		l.clients = append(l.clients, w.client(key))
	}
	for _, worker := range workers {
		l.staying[worker.address] = w.outside(worker)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx, *objectsRate) })
	defer wg.Wait()
	defer stop()

	warm := began.Add(warmUp)
	procs.SleepUntil(warm.Add(*objectsFor))
	starts := time.Now()
	third := startObjectsWorker(t, w.cfg)
	procs.Await(t, workPatience, "the third owns a shard", func() error {
		if w.ownedShards(third) == 0 {
			return errNotYet
		}
		return nil
	})
	joins := time.Now()
	joining := w.awaitShared(append(workers, third))
	joined := later(joins.Add(joining), joins.Add(time.Second))
	procs.SleepUntil(joined.Add(*objectsFor))
	leaves := third.Signal(t, syscall.SIGTERM)
	require.Zero(t, third.Exit(t, workPatience))
	leaving := time.Since(leaves)
	require.NoError(t, w.checkShared(workers))
	left := later(leaves.Add(leaving), leaves.Add(time.Second))
	procs.SleepUntil(left.Add(*objectsFor))
	ends := time.Now()
	stop()
	wg.Wait()

	require.Zero(t, l.failed.Load(), "failed calls")
	require.NoError(t, l.ledger.judge(w.stored()))
	t.Logf("%d calls in %v, %.0f per second, %d of them by nodes that do not own the object: none failed, was lost or "+
		"doubled", l.ledger.increments(), brief(ends.Sub(began)), float64(len(l.calls))/ends.Sub(began).Seconds(),
		l.forwarded.Load())
	t.Logf("2 -> 3 nodes: the map was even after %v; 3 -> 2: the node had left after %v", brief(joining), brief(leaving))
	steady := slices.Concat(l.during(warm, starts), l.during(joined, leaves), l.during(left, ends))
	t.Logf("without moves:          %s", quantiles(steady))
	for _, span := range []struct {
		what     string
		from, to time.Time
	}{{"before:                ", warm, starts}, {"the process starts:    ", starts, joins},
		{"2 -> 3, for a second:  ", joins, joined}, {"between:               ", joined, leaves},
		{"3 -> 2, for a second:  ", leaves, left}, {"after:                 ", left, ends}} {
		calls := l.during(span.from, span.to)
		added := quantile(calls, 0.99) - quantile(steady, 0.99)
		t.Logf("%s %s; p99 differs by %v", span.what, quantiles(calls), brief(added))
		require.Less(t, added, movesP99, span.what)
	}
	require.Greater(t, float64(len(l.calls)), 0.9*float64(*objectsRate)*ends.Sub(began).Seconds(), "the rate")
	st := w.caller.Objects().Stats()
	t.Logf("the caller: %d calls to other nodes, %d sent anew, %d lost", st.Remote, st.Retried, st.Lost)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
