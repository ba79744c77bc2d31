package target

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/goverse/goverse/bench/internal/callproc"
	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/test/probepb"
)

const (
	localGoal     = 600.0 // ns, one caller
	localManyGoal = 2e6   // calls a second
	localCallers  = 64
	// localFor and localBriefly are the durations of one round of one arm.
	localFor, localBriefly = 500 * time.Millisecond, 10 * time.Millisecond
	// localBatch is the number of calls between two readings of the clock.
	localBatch = 128

	protoactorName = "protoactor-go"
)

// localArm is one way to get a response within the process. The i-th caller uses call, which calls a responder
// of its own.
type localArm struct {
	name     string
	ours     bool
	call     func(i int, request *probepb.AddRequest) (*probepb.AddResponse, error)
	one, all *sample.Series // with one caller, with all callers
	allocs   float64        // per call
}

func newLocalArm(name string, ours bool,
	call func(i int, request *probepb.AddRequest) (*probepb.AddResponse, error)) *localArm {
	return &localArm{name: name, ours: ours, call: call, one: &sample.Series{Name: name + ", 1 caller", Unit: "ns"},
		all: &sample.Series{Name: fmt.Sprintf("%s, %d callers", name, localCallers), Unit: "calls/s"}}
}

// localCalls measures calls of objects on the local node, in turns with a peer and the floor.
func localCalls(ctx context.Context, env Env, r *report.Result) error {
	lasts := localFor
	if env.Quick {
		lasts = localBriefly
	}
	return withEtcd(func(p *etcdproc.Process) (err error) {
		c, err := callproc.StartNode(ctx, cluster.Config{EtcdAddress: p.Endpoint,
			Sharding: cluster.Sharding{Window: time.Millisecond}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, callproc.StopNode(c)) }()
		clients := make([]probepb.ProbeClient, localCallers)
		for i := range clients {
			clients[i] = probepb.NewProbeClient(c.Objects().At(fmt.Sprintf("object %d", i)))
		}
		can, cancel := context.WithCancel(context.Background())
		defer cancel()
		actors, stopActors := localActors()
		defer stopActors()
		channels, closeChannels := overChannels()
		defer closeChannels()
		arms := []*localArm{
			newLocalArm("goverse, a context that cannot end", true, withContext(context.Background(), clients)),
			newLocalArm("goverse, a context that can end", true, withContext(can, clients)),
			newLocalArm(protoactorName, false, actors),
			newLocalArm("a request and a reply over channels", false, channels),
		}
		rounds := env.pick(15, 2)
		for round := range rounds + 1 {
			for _, arm := range arms {
				rest(ctx, pause)
				if err := arm.measure(lasts, round > 0); err != nil { // the first round warms up
					return fmt.Errorf("%s: %w", arm.name, err)
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		for _, arm := range arms {
			if err := arm.count(); err != nil {
				return fmt.Errorf("%s: %w", arm.name, err)
			}
			arm.report(r)
		}
		r.Note("Medians of %d rounds of %v each, in turns, all in one process with a node over one etcd; a new request "+
			"with a number is made for each call, and a new response for it. An object does not see the caller's messages, "+
			"nor the caller the object's: each gets a copy. An actor and a goroutine are handed pointers. %d callers call as "+
			"many objects, actors and goroutines, one each.", rounds, lasts, localCallers)
		r.Note("Where the context can end, its caller does not wait for a method that goes on after it: the method runs in "+
			"a goroutine of its own. %s: `RequestFuture` with a time-out of 30 s, and its `Result`. Channels are not buffered.",
			protoactorName)
		return nil
	})
}

// withContext returns a function that calls objects with ctx.
func withContext(ctx context.Context,
	clients []probepb.ProbeClient) func(int, *probepb.AddRequest) (*probepb.AddResponse, error) {
	return func(i int, request *probepb.AddRequest) (*probepb.AddResponse, error) {
		return clients[i].Add(ctx, request)
	}
}

// localActors returns a function that sends requests to actors.
func localActors() (call func(int, *probepb.AddRequest) (*probepb.AddResponse, error), end func()) {
	system, pids := callproc.NewActors(), []*actor.PID(nil)
	for range localCallers {
		pids = append(pids, system.Root.Spawn(callproc.EchoActor()))
	}
	return func(i int, request *probepb.AddRequest) (*probepb.AddResponse, error) {
			return callproc.Ask[*probepb.AddResponse](system, pids[i], request)
		}, func() {
			for _, pid := range pids {
				_ = system.Root.StopFuture(pid).Wait() // a failure leaves nothing to do
			}
			system.Shutdown()
		}
}

// overChannels returns the floor: another goroutine that responds.
func overChannels() (call func(int, *probepb.AddRequest) (*probepb.AddResponse, error), end func()) {
	var wg sync.WaitGroup
	requests, replies := make([]chan *probepb.AddRequest, localCallers), make([]chan *probepb.AddResponse, localCallers)
	for i := range requests {
		requests[i], replies[i] = make(chan *probepb.AddRequest), make(chan *probepb.AddResponse)
		wg.Go(func() {
			var sum int64
			for request := range requests[i] {
				sum += request.GetAmount()
				replies[i] <- &probepb.AddResponse{Sum: sum}
			}
		})
	}
	return func(i int, request *probepb.AddRequest) (*probepb.AddResponse, error) {
			requests[i] <- request
			return <-replies[i], nil
		}, func() {
			for _, c := range requests {
				close(c)
			}
			wg.Wait()
		}
}

// measure runs one round, with one caller and with all callers.
func (a *localArm) measure(lasts time.Duration, keep bool) error {
	one, err := a.rate(1, lasts)
	if err != nil {
		return err
	}
	all, err := a.rate(localCallers, lasts)
	if err != nil || !keep {
		return err
	}
	a.one.Values = append(a.one.Values, 1e9/one)
	a.all.Values = append(a.all.Values, all)
	return nil
}

// count counts the allocations of a call. AllocsPerRun rounds off the few of the node's own work.
func (a *localArm) count() error {
	var failed error
	a.allocs = testing.AllocsPerRun(1000, func() {
		if _, err := a.call(0, &probepb.AddRequest{Amount: 1}); err != nil {
			failed = err
		}
	})
	return failed
}

// rate returns the calls per second of the given number of callers.
func (a *localArm) rate(callers int, lasts time.Duration) (float64, error) {
	batches, err := perSecond(callers, lasts, func(i int) error {
		var last int64
		for range localBatch {
			reply, err := a.call(i, &probepb.AddRequest{Amount: 1})
			if err != nil {
				return err
			}
			if last != 0 && reply.GetSum() != last+1 {
				return fmt.Errorf("the sum is %d after %d", reply.GetSum(), last)
			}
			last = reply.GetSum()
		}
		return nil
	})
	return batches * localBatch, err
}

func (a *localArm) report(r *report.Result) {
	r.Keep(a.one, a.all)
	oneTarget, oneVerdict, allTarget, allVerdict := "", report.Context, "", report.Context
	if a.ours {
		oneTarget, oneVerdict = fmt.Sprintf("≤ %.1f µs", localGoal/1000), report.Judge(a.one.Median() <= localGoal)
		allTarget, allVerdict = fmt.Sprintf("≥ %.0f M/s", localManyGoal/1e6), report.Judge(a.all.Median() >= localManyGoal)
	}
	r.Row(a.one.Name, oneTarget, fmt.Sprintf("%.2f µs (least %.2f, most %.2f); %.0f allocations", a.one.Median()/1000,
		a.one.P(0)/1000, a.one.Max()/1000, a.allocs), oneVerdict)
	r.Row(a.all.Name, allTarget, fmt.Sprintf("%.2f M/s (least %.2f, most %.2f)", a.all.Median()/1e6, a.all.P(0)/1e6,
		a.all.Max()/1e6), allVerdict)
}
