// Package target measures Goverse against its targets. Every benchmark starts an etcd in a process of its own.
// In the same run it measures a floor, with bare clients of the same etcd, interleaved with the measured
// operation. So drifts of the machine affect both.
//
// # What is not promised
//
// A candidate does not have a process of its own: hundreds share one here. The figures include the work that all
// of them do at the same time on few cores.
package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
)

// Env holds the settings of a benchmark.
type Env struct {
	// Quick requests so few samples that they show only that the benchmark works.
	Quick bool
	// Log reports progress to the user at the terminal.
	Log func(format string, args ...any)
}

// pick returns the number of samples to take.
func (e Env) pick(full, quick int) int {
	if e.Quick {
		return quick
	}
	return full
}

// Benchmark is the measurement of one target.
type Benchmark struct {
	Target string
	Title  string
	// Run takes the measurements and adds rows, notes, series and plots to r.
	Run func(ctx context.Context, env Env, r *report.Result) error
}

// All returns the benchmarks in the order in which they run.
func All() []Benchmark {
	return []Benchmark{
		{"floors", "what etcd itself costs a bare client", floors},
		{"T1", "asking whether one leads", isLeader},
		{"T2", "graceful handover", handover},
		{"T3", "SIGKILL of the leader's process", crash},
		{"elections", "one program with several libraries for leader election", compareElections},
		{"stopped", "the leader's process stands still, with several libraries for leader election", compareStopped},
		{"T4", "the leader is cut off from a healthy etcd", cutOff},
		{"T5", "many nodes", scale},
		{"T6", "an uncontended lock", uncontended},
		{"T7", "many locks at once", many},
		{"T8", "one lock that many want", contended},
		{"T9", "ten thousand elections and locks held", held},
		{"processors", "many processors in one process, and what a leader lock costs", processors},
		{"processors-postgres", "processors on PostgreSQL alone, and what a leader lock costs", processorsOnPostgres},
		{"T10", "dealing the shards out", dealing},
		{"T11p", "shards move: two nodes, three, two", moving},
		{"T12", "SIGKILL of an owner of shards", orphan},
		{"T13", "a call to an object on the same node", localCalls},
		{"T13b", "a call to an object on another node", remoteCalls},
		{"T14", "start", start},
		{"T15", "idle cost", idle},
		{"silence", "what a silence time-out costs", silenceCost},
	}
}

// pause precedes every sample. In it, work caused by the last sample ends. It is the same in every arm, because
// on an idle machine a request takes longer the longer the machine was idle, by up to one half.
const pause = 20 * time.Millisecond

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// withEtcd runs f with a new etcd.
func withEtcd(f func(*etcdproc.Process) error) (err error) {
	p, err := etcdproc.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return f(p)
}

// dial returns n bare clients with a connection each, and a function that closes them.
func dial(ctx context.Context, endpoint string, n int) ([]*clientv3.Client, func(), error) {
	var clients []*clientv3.Client
	closeAll := func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for range n {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 2 * time.Second,
			Logger: zap.NewNop()})
		if err == nil {
			clients = append(clients, c)
			_, err = c.Get(ctx, "warm")
		}
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("connect to etcd: %w", err)
		}
	}
	return clients, closeAll, nil
}

func ms(v float64) string { return fmt.Sprintf("%.2f ms", v) }

func p50p99(p50, p99 float64) string { return fmt.Sprintf("p50 %s, p99 %s", ms(p50), ms(p99)) }
