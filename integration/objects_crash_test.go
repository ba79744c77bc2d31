//go:build unix

package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/probepb"
)

var (
	objectsFaults = flag.Int("objects.faults", 5, "how many nodes TestObjectsOfCrashedNodes kills or pauses; 50 or "+
		"more in the full run")
	objectsTTL = flag.Int("objects.ttl", 0, "the workers' TTL in TestObjectsOfCrashedNodes, in seconds; 0 is a short "+
		"one, and 10 that of the full run")
	objectsAttempt = flag.Duration("objects.attempt", 20*time.Second, "time-out of calls of objects whose node is "+
		"about to fail, in TestObjectsOfCrashedNodes; 20s shows whether anything but that ends their wait")
	objectsSeed = flag.Uint64("objects.seed", 1, "which nodes are killed or paused, in which order")
)

const (
	crashedCounters = 90
	// callPause separates the calls of a counter; repeatPause precedes a repeated call.
	callPause, repeatPause = 50 * time.Millisecond, 2 * time.Millisecond
	// answeredBy is a generous limit for calls without an answer when the caller knows the next owner.
	answeredBy = 2 * time.Second
)

// mayHaveRun reports whether a call must be repeated under its name.
func mayHaveRun(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Unknown, codes.DeadlineExceeded:
		return true
	}
	return false
}

// caller increments one counter again and again. Each call has a name and is repeated until it is acknowledged.
type caller struct {
	crashes   *crashTest
	key       string
	client    probepb.ProbeClient           // nil for a caller outside of the cluster
	victim    atomic.Pointer[objectsWorker] // the counter's owner, about to fail; nil if its node is unaffected
	acked     atomic.Int64
	elsewhere atomic.Int64 // time of the first reply by another node after the victim's fault; 0 before
}

// crashTest holds the callers of a test and their observations.
type crashTest struct {
	w       *objectWorld
	ledger  ledger
	callers []*caller
	stopped atomic.Bool
	outside map[*objectsWorker]probepb.ProbeClient
	gates   atomic.Pointer[[]probepb.ProbeClient] // for calls from outside

	mu       sync.Mutex
	repeated map[string]int // calls of victims' objects, by error
	others   int            // failed calls of other objects
}

// run increments the counter until the test stops it.
func (c *caller) run() {
	pause := time.NewTicker(callPause)
	defer pause.Stop()
	again := time.NewTicker(repeatPause)
	defer again.Stop()
	for n := 0; !c.crashes.stopped.Load(); n++ {
		request := &probepb.AddRequest{Amount: 1, Request: fmt.Sprint(c.key, "/", n)}
		for !c.attempt(request) {
			<-again.C
		}
		if c.victim.Load() == nil || c.elsewhere.Load() != 0 {
			<-pause.C
		} // otherwise a call is always in flight, for the fault to hit
	}
}

// attempt makes a call and reports whether it need not be repeated.
func (c *caller) attempt(request *probepb.AddRequest) bool {
	victim, timeout := c.victim.Load(), workPatience
	if victim != nil {
		timeout = *objectsAttempt
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client := c.client
	if client == nil {
		gates := *c.crashes.gates.Load()
		client = gates[rand.IntN(len(gates))]
		ctx = metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, c.key)
	}
	reply, err := client.Add(ctx, request)
	if err == nil {
		c.crashes.ledger.acknowledged(c.key, reply.GetSum())
		c.acked.Add(1)
		if victim != nil && reply.GetNode() != victim.address {
			c.elsewhere.CompareAndSwap(0, time.Now().UnixNano())
		}
		return true
	}
	return c.crashes.failed(c, victim, request, err)
}

// failed records a failed call and reports whether it must not be repeated.
func (c *crashTest) failed(by *caller, victim *objectsWorker, request *probepb.AddRequest, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if victim == nil {
		if c.others++; c.others <= 10 {
			c.w.Errorf("call %s, of an object whose node was not touched: %v", request.GetRequest(), err)
		}
	}
	c.repeated[status.Code(err).String()+" "+objects.ReasonOf(err)]++
	if mayHaveRun(err) {
		return false
	}
	c.w.Errorf("call %s: %v", request.GetRequest(), err)
	return true
}

// directOutsideCalls directs calls from outside to these workers.
func (c *crashTest) directOutsideCalls(workers []*objectsWorker) {
	var gates []probepb.ProbeClient
	for _, worker := range workers {
		if c.outside[worker] == nil {
			c.outside[worker] = c.w.outside(worker)
		}
		gates = append(gates, c.outside[worker])
	}
	c.gates.Store(&gates)
}

// awaitProgress waits until each of these callers has another call acknowledged.
func (c *crashTest) awaitProgress(what string, callers []*caller) {
	c.w.Helper()
	before := make([]int64, len(callers))
	for i, one := range callers {
		before[i] = one.acked.Load()
	}
	procs.Await(c.w.T, workPatience, what, func() error {
		for i, one := range callers {
			if now := one.acked.Load(); now <= before[i]+1 { // the first one may have been in flight before
				return fmt.Errorf("%s had %d calls acknowledged, and has %d", one.key, before[i], now)
			}
		}
		return nil
	})
}

// faultKind is a kind of fault of a worker.
type faultKind int

const (
	killOwner   faultKind = iota
	pauseOwner            // for longer than its TTL
	killArrival           // while the first shards move to it
	faultKinds
)

func (k faultKind) String() string {
	return []string{"SIGKILL", "SIGSTOP", "SIGKILL of a node that has just joined"}[k]
}

// failWorker makes a worker fail. It returns the times for which calls of its objects were unanswered, and the time
// after which the caller knew their next owners.
func (c *crashTest) failWorker(victim *objectsWorker, fault func() time.Time) (unanswered []time.Duration,
	moved time.Duration) {
	c.w.Helper()
	var its []*caller
	for _, one := range c.callers {
		if c.w.owner(one.key) == victim.address {
			one.elsewhere.Store(0)
			one.victim.Store(victim)
			its = append(its, one)
		}
	}
	require.NotEmpty(c.w, its)
	c.awaitProgress("calls of the victim's objects have the short time-out, and none comes through it", c.callers)
	at := fault()
	procs.Await(c.w.T, workPatience, "the victim owns nothing", func() error {
		if c.w.ownedShards(victim) > 0 {
			return errNotYet
		}
		return nil
	})
	moved = time.Since(at)
	procs.Await(c.w.T, workPatience, "other nodes answer for the victim's objects", func() error {
		for _, one := range its {
			if one.elsewhere.Load() == 0 {
				return errNotYet
			}
		}
		return nil
	})
	for _, one := range its {
		unanswered = append(unanswered, time.Unix(0, one.elsewhere.Load()).Sub(at))
	}
	if after := quantile(unanswered, 1) - moved; after > answeredBy {
		c.w.Errorf("calls were unanswered for another %v when the caller knew the next owners", after)
	}
	return unanswered, moved
}

// killNewcomer starts a worker and kills it when it owns the first shards, before it can have all. It is
// unknown which calls that hits, so no call counts as one of another node's object.
func (c *crashTest) killNewcomer() {
	newcomer := startObjectsWorker(c.w.T, c.w.cfg)
	for _, one := range c.callers {
		one.elsewhere.Store(1)
		one.victim.Store(newcomer)
	}
	c.awaitProgress("all calls have the short time-out", c.callers)
	procs.Await(c.w.T, workPatience, "the newcomer owns shards", func() error {
		if c.w.ownedShards(newcomer) == 0 {
			return errNotYet
		}
		return nil
	})
	newcomer.Kill(c.w.T)
}

// Nodes are killed, or paused for longer than their TTL, while counters are called. Calls that may have run are
// repeated under their names. Each increment takes effect once, and objects of other nodes are not affected.
func TestObjectsOfCrashedNodes(t *testing.T) {
	t.Parallel()
	ttl := *objectsTTL
	if ttl == 0 {
		ttl = briefTTL()
	}
	w := newObjectWorld(t, ttl, "")
	workers := w.start(3)
	c := &crashTest{w: w, repeated: map[string]int{}, outside: map[*objectsWorker]probepb.ProbeClient{}}
	c.directOutsideCalls(workers)
	var wg sync.WaitGroup
	stop := sync.OnceFunc(func() {
		c.stopped.Store(true)
		wg.Wait()
	})
	defer stop()
	for i, key := range counterKeys(crashedCounters) {
		one := &caller{crashes: c, key: key}
		if i%outsideEach != 0 {
			one.client = w.client(key)
		}
		c.callers = append(c.callers, one)
		wg.Go(one.run)
	}
	c.awaitProgress("all counters are called", c.callers)

	rng := rand.New(rand.NewPCG(*objectsSeed, 0))
	var unanswered [faultKinds][]time.Duration
	var faults [faultKinds]int
	for round, n := range rng.Perm(*objectsFaults) {
		kind := []faultKind{killOwner, pauseOwner, killOwner, pauseOwner, killArrival}[n%5]
		faults[kind]++
		i := rng.IntN(len(workers))
		victim := workers[i]
		c.directOutsideCalls(slices.Delete(slices.Clone(workers), i, i+1))
		var took []time.Duration
		var moved time.Duration
		switch kind {
		case killOwner:
			took, moved = c.failWorker(victim, func() time.Time { return victim.Kill(t) })
			workers[i] = startObjectsWorker(t, w.cfg)
		case pauseOwner:
			took, moved = c.failWorker(victim, func() time.Time { return victim.Freeze(t) })
			victim.Thaw(t)
		case killArrival:
			c.killNewcomer()
		}
		if took != nil {
			t.Logf("round %d: %v: the caller knew the next owners after %v; unanswered for %s", round, kind, brief(moved),
				quantiles(took))
		}
		unanswered[kind] = append(unanswered[kind], took...)
		w.awaitShared(workers)
		c.directOutsideCalls(workers)
		c.awaitProgress("all counters are called after the fault", c.callers)
		for _, one := range c.callers {
			one.victim.Store(nil)
		}
		c.awaitProgress("no call has the short time-out any more", c.callers)
	}
	began := time.Now()
	stop()
	t.Logf("the last calls ended after %v", brief(time.Since(began)))
	require.NoError(t, c.ledger.judge(w.stored()))
	require.Zero(t, c.others, "failed calls of objects whose node was not touched")
	for _, kind := range []faultKind{killOwner, pauseOwner} {
		t.Logf("%d times %v: calls of the victims' objects were unanswered for %s", faults[kind], kind,
			quantiles(unanswered[kind]))
	}
	t.Logf("%d times %v", faults[killArrival], killArrival)
	t.Logf("TTL %d s: %d increments acknowledged, none was lost or doubled; %d calls of objects of other nodes failed; "+
		"repeated were %v", ttl, c.ledger.increments(), c.others, c.repeated)
	require.Less(t, quantile(unanswered[killOwner], 0.5), time.Duration(ttl)*time.Second,
		"nobody waits for the lease of a process that is gone")
}

// A process is killed when an increment is stored but its caller has no reply yet. If the worker remembers the
// names of calls, the increment takes effect once. The mutant ignores them and applies it twice, and the judge
// detects that.
func TestObjectsRepeatedCall(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{"", forgetful} {
		t.Run("mutant="+mutant, func(t *testing.T) {
			t.Parallel()
			var l ledger
			w := newObjectWorld(t, briefTTL(), mutant)
			workers := w.start(2)
			key := w.ownedBy(workers[0])
			ctx, cancel := context.WithTimeout(t.Context(), workPatience)
			defer cancel()
			_, err := w.client(key).Do(ctx, &probepb.DoRequest{What: dieAfter, Key: "the call"})
			require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
			require.Equal(t, objects.ReasonMayHaveStarted, objects.ReasonOf(err), "%v", err)
			require.False(t, objects.NotStarted(err), "%v", err)
			workers[0].Exit(t, patience)
			reply, err := w.client(key).Add(ctx, &probepb.AddRequest{Amount: 1, Request: "the call"})
			require.NoError(t, err)
			l.acknowledged(key, reply.GetSum())
			if mutant == "" {
				require.NoError(t, l.judge(w.stored()))
				require.Equal(t, workers[0].address, reply.GetNode(), "it is the stored reply, of the node that died")
				return
			}
			require.ErrorContains(t, l.judge(w.stored()), "doubled")
		})
	}
}
