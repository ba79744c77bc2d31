// Package target measures Goverse against its targets. Every benchmark starts an
// etcd of its own in a process of its own, and measures its floor, bare clients
// of the same etcd, in the same run and interleaved with the thing itself: what
// wanders on a machine wanders under both.
//
// # What is not promised
//
// Hundreds of candidates share one process here, where in a real cluster each has
// its own. The work that all of them do at once on few cores is part of the
// figures.
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

// Env is what a benchmark is given.
type Env struct {
	// Quick asks for so few samples that only the machinery is shown to work.
	Quick bool
	// Log tells the person at the terminal how far it is.
	Log func(format string, args ...any)
}

// pick is how many samples to take.
func (e Env) pick(full, quick int) int {
	if e.Quick {
		return quick
	}
	return full
}

// Benchmark is one target's measurement.
type Benchmark struct {
	Target string
	Title  string
	// Run measures; it fills in rows, notes, series and plots.
	Run func(ctx context.Context, env Env, r *report.Result) error
}

// All are the benchmarks, in the order in which they run.
func All() []Benchmark {
	return []Benchmark{
		{"floors", "what etcd itself costs a bare client", floors},
		{"T1", "asking whether one leads", isLeader},
		{"T2", "graceful handover", handover},
		{"T3", "SIGKILL of the leader's process", crash},
		{"T4", "the leader is cut off from a healthy etcd", cutOff},
		{"T5", "many nodes", scale},
		{"T6", "a lock that nobody else wants", uncontended},
		{"T7", "many locks at once", many},
		{"T8", "one lock that many want", contended},
		{"T9", "ten thousand elections and locks held", held},
		{"processors", "many processors in one process, and what a leader lock costs", processors},
		{"T10", "dealing the shards out", dealing},
		{"T11p", "shards move: two nodes, three, two", moving},
		{"T12", "SIGKILL of an owner of shards", orphan},
		{"T13", "a call to an object on the same node", localCalls},
		{"T13b", "a call to an object on another node", remoteCalls},
		{"T14", "start", start},
		{"T15", "idle cost", idle},
	}
}

// pause goes before every sample. It lets what the last one set in motion come to
// rest, and is the same in every arm: on an idle machine a request takes longer
// the longer the machine was idle, up to half as long again.
const pause = 20 * time.Millisecond

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// withEtcd runs f beside a fresh etcd.
func withEtcd(f func(*etcdproc.Process) error) (err error) {
	p, err := etcdproc.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return f(p)
}

// dial makes n bare clients, a connection each, and a function that closes them.
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
