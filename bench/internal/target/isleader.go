package target

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster"
)

const isLeaderRatio = 1.5

// initTesting registers the flags that testing.Benchmark reads.
var initTesting = sync.OnceFunc(testing.Init)

// The sinks keep the compiler from optimising the calls away.
var (
	sinkBool bool
	sinkTime time.Time
)

// isLeader measures IsLeader on a leading node and, in turns with it, time.Now.
func isLeader(ctx context.Context, env Env, r *report.Result) error {
	return withEtcd(func(p *etcdproc.Process) (err error) {
		c, err := startNode(ctx, cluster.Config{EtcdAddress: p.Endpoint})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stopNode(ctx, c)) }()
		if err := awaitLead(ctx, c); err != nil {
			return err
		}
		return timeIsLeader(env, r, c, "")
	})
}

// timeIsLeader measures IsLeader on a node that leads, and writes the rows. The text of says which node that is.
func timeIsLeader(env Env, r *report.Result, leader *cluster.Cluster, of string) error {
	initTesting()
	benchtime := "500ms"
	if env.Quick {
		benchtime = "20ms"
	}
	if err := flag.Set("test.benchtime", benchtime); err != nil {
		return err
	}
	manager := leader.GetConsensusManager()
	ours, floor := &sample.Series{Name: "IsLeader()", Unit: "ns"}, &sample.Series{Name: "time.Now()", Unit: "ns"}
	var allocs int64
	rounds := env.pick(15, 3)
	for range rounds {
		b := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				sinkTime = time.Now()
			}
		})
		floor.Values = append(floor.Values, perOp(b))
		b = testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sinkBool = manager.IsLeader()
			}
		})
		ours.Values = append(ours.Values, perOp(b))
		allocs = max(allocs, b.AllocsPerOp())
	}
	if !sinkBool || sinkTime.IsZero() {
		return errors.New("the node did not lead while it was measured")
	}
	ratio := ours.Median() / floor.Median()
	r.Row("`time.Now()`", "", fmt.Sprintf("%.1f ns", floor.Median()), report.Context)
	r.Row("`IsLeader()`"+of, fmt.Sprintf("≤ %.1f × `time.Now()`", isLeaderRatio),
		fmt.Sprintf("%.1f ns = %.2f ×", ours.Median(), ratio), report.Judge(ratio <= isLeaderRatio))
	r.Row("allocations of `IsLeader()`"+of, "0", fmt.Sprint(allocs), report.Judge(allocs == 0))
	r.Keep(ours, floor)
	r.Note("`IsLeader()`: medians of %d runs of %s each, in turns; a real node that leads and goes on renewing its "+
		"session.", rounds, benchtime)
	return nil
}

func perOp(b testing.BenchmarkResult) float64 { return float64(b.T.Nanoseconds()) / float64(b.N) }
