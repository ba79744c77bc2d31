//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/internal/wait"
)

// Phase is one rolling restart: every node is stopped gracefully and started with Program, one after the other. When
// two of them have been, a node that has not is killed and started again with the program that it had.
type Phase struct {
	Name    string
	Program string // path
}

// PhaseResult holds the measurements of a phase.
type PhaseResult struct {
	Name string
	Took time.Duration
	// Calls counts the calls to objects that were answered. Failed counts the attempts that failed while nodes were
	// restarted gracefully, and FailedByKill those from the kill on until the node was back.
	Calls, Failed, FailedByKill int64
	// Slowest is the longest time until a call was answered, repetitions included.
	Slowest time.Duration
	// StateFormats is the number of members, at the end, whose records state the formats that they read.
	StateFormats int
}

// String returns the measurements in one line.
func (p PhaseResult) String() string {
	return fmt.Sprintf("%s: %d calls in %v (%.0f/s), %d attempts failed at restarts, %d at the kill, slowest answer %v; "+
		"%d of the members state formats", p.Name, p.Calls, p.Took.Round(10*time.Millisecond),
		float64(p.Calls)/p.Took.Seconds(), p.Failed, p.FailedByKill, p.Slowest.Round(time.Millisecond), p.StateFormats)
}

// RollingResult describes a rolling run and the verdict on its history.
type RollingResult struct {
	Phases  []PhaseResult
	Verdict history.Verdict
	Err     error             // the reason that the run was aborted, or nil
	Output  map[string]string // of the nodes
}

// RunRolling starts a world with the program of the first phase and goes through the phases, under calls of objects by
// clients, moves of shards, locks and effects. It blocks until everything has ended. It returns an error if the
// run's own equipment fails.
func RunRolling(ctx context.Context, cfg Config, seed uint64, phases []Phase) (*RollingResult, error) {
	cfg.Callers, cfg.Program = -1, phases[0].Program
	w, err := newWorld(ctx, cfg)
	if err != nil {
		return nil, err
	}
	res := &RollingResult{Output: map[string]string{}}
	res.Err = w.roll(ctx, rand.New(rand.NewPCG(seed, 0)), phases, res)
	if res.Err == nil {
		res.Err = w.stop(ctx)
	}
	for _, n := range w.nodes {
		res.Output[fmt.Sprintf("node %d %s", n.index, n.address())] = n.output()
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	res.Verdict, err = w.judgeRecords()
	return res, err
}

func (w *world) roll(ctx context.Context, rnd *rand.Rand, phases []Phase, res *RollingResult) error {
	callers, err := startSteadyCallers(ctx, w)
	if err != nil {
		return err
	}
	defer callers.stop()
	for _, phase := range phases {
		began := time.Now()
		callers.reset()
		if err := w.rollOnce(ctx, rnd, phase.Program, callers); err != nil {
			return fmt.Errorf("%s: %w", phase.Name, err)
		}
		p := PhaseResult{Name: phase.Name, Took: time.Since(began), Calls: callers.answered.Load(),
			Failed: callers.failed.Load(), FailedByKill: callers.failedByKill.Load(),
			Slowest: time.Duration(callers.slowest.Load())}
		for _, m := range w.mirror.Snapshot().Members {
			if m.Formats != (format.Range{}) {
				p.StateFormats++
			}
		}
		res.Phases = append(res.Phases, p)
	}
	callers.stop()
	return w.awaitCalm(ctx)
}

// rollOnce restarts each node with the program, and kills the last one before its turn.
func (w *world) rollOnce(ctx context.Context, rnd *rand.Rand, program string, callers *steadyCallers) error {
	for i, n := range w.nodes {
		if i == len(w.nodes)-1 {
			callers.killing.Store(true)
			if err := killProcess(ctx, w, n, rnd); err != nil {
				return err
			}
			if err := w.awaitNodesCalm(ctx); err != nil {
				return err
			}
			callers.killing.Store(false)
		}
		n.program = program
		if err := stopProcess(ctx, w, n, rnd); err != nil {
			return err
		}
		if err := w.awaitNodesCalm(ctx); err != nil {
			return err
		}
	}
	return w.settled(ctx)
}

const (
	// SteadyCallers is the number of callers in a rolling run. Each makes a call every steadyEvery: 500 calls a second
	// together.
	SteadyCallers = 50
	steadyEvery   = 100 * time.Millisecond
	// steadyAdds is the number of calls of which one adds, so that etcd's disk does not limit the calls.
	steadyAdds = 4
	// steadyObjects is the number of objects that they call. Of thousands of calls to one object the judge would not find
	// an order in time.
	steadyObjects = 100
)

// steadyCallers call objects by a client that follows the shard map.
type steadyCallers struct {
	rec    *history.Recorder
	client *client.Client

	killing                        atomic.Bool
	answered, failed, failedByKill atomic.Int64
	slowest                        atomic.Int64 // nanoseconds

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func startSteadyCallers(ctx context.Context, w *world) (*steadyCallers, error) {
	s := &steadyCallers{rec: w.rec}
	var addresses []string
	for _, n := range w.nodes {
		addresses = append(addresses, n.address())
	}
	var err error
	if s.client, err = client.Dial(ctx, client.Config{Addresses: addresses}); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(ctx)
	s.cancel = cancel
	for range SteadyCallers {
		s.wg.Go(func() { s.callSteadily(life, rand.New(rand.NewPCG(rand.Uint64(), 0))) })
	}
	return s, nil
}

// reset sets the measurements to zero.
func (s *steadyCallers) reset() {
	for _, n := range []*atomic.Int64{&s.answered, &s.failed, &s.failedByKill, &s.slowest} {
		n.Store(0)
	}
}

// callSteadily makes one call after the other until ctx ends. Calls that are due while one is not answered are made
// afterwards, so that a pause does not hide how many calls it delays.
func (s *steadyCallers) callSteadily(ctx context.Context, rnd *rand.Rand) {
	for due := time.Now(); wait.For(ctx, time.Until(due)); due = due.Add(steadyEvery) {
		began := time.Now()
		if s.callUntilAnswered(ctx, objectKey(rnd.IntN(steadyObjects)), rnd.IntN(steadyAdds) == 0) != nil {
			return
		}
		s.answered.Add(1)
		took := int64(time.Since(began))
		for last := s.slowest.Load(); took > last && !s.slowest.CompareAndSwap(last, took); {
			last = s.slowest.Load()
		}
	}
}

// callUntilAnswered repeats one call under its request id until it is answered or ctx ends.
func (s *steadyCallers) callUntilAnswered(ctx context.Context, key string, adds bool) error {
	req := &probepb.AddRequest{}
	if adds {
		req.Amount, req.Request = 1, fmt.Sprintf("%x", rand.Uint64())
	}
	answered := s.rec.ObjectCall(subjectOf(key), adds)
	for {
		attempt, cancel := context.WithTimeout(ctx, callTimeout)
		reply, err := probepb.NewProbeClient(s.client.At(key)).Add(attempt, req)
		cancel()
		switch {
		case err == nil:
			answered(reply.GetSum())
			return nil
		case ctx.Err() != nil:
			return errors.Join(err, context.Cause(ctx))
		case s.killing.Load():
			s.failedByKill.Add(1)
		default:
			s.failed.Add(1)
		}
		wait.For(ctx, pollInterval)
	}
}

// stop ends the calls and waits for the callers. It may be called twice.
func (s *steadyCallers) stop() {
	s.cancel()
	s.wg.Wait()
	_ = s.client.Close() // always nil
}
