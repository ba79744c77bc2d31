package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leak"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var (
	stormRounds = flag.Int("storm.rounds", 3, "rounds of starts and stops at any moment; 50 is the full run")
	stormSeed   = flag.Uint64("storm.seed", 1, "seed of the storm's random choices")
)

const (
	// stormPatience limits every wait of a storm; a longer one is a hang.
	stormPatience = 30 * time.Second
	stormTTL      = 3
	// goroutinesLeave limits the time for a node's goroutines to end after its Stop.
	goroutinesLeave = 3 * time.Second
)

// Nodes are started and stopped at any moment, and their starts are cut short, while everything else is called
// and other programs are connected to them. Nothing hangs, no key and no lease is left, and after Stop there are
// no more goroutines than before.
func TestStartAndStopInAStorm(t *testing.T) {
	c := clustertest.New(t, 0, clustertest.WithTTL(stormTTL), clustertest.WithPatience(stormPatience))
	_, err := c.Client().Put(etcdtest.Context(t), "/outside", "warm")
	require.NoError(t, err)
	before := phaseRunning()
	var count tally
	for round := range *stormRounds {
		w := newStorm(t, c, round, rand.New(rand.NewPCG(*stormSeed, uint64(round))), &count)
		w.blow()
		if t.Failed() {
			t.Fatalf("in round %d of seed %d", round, *stormSeed)
		}
	}
	t.Logf("%s; seed %d", &count, *stormSeed)
	began := time.Now()
	left := leak.AwaitNone(func() string { return joined(before, phaseRunning()) }, 10*time.Second)
	require.Empty(t, left, "%d goroutines are left after %v", strings.Count(left, "\n\n")+1, time.Since(began))
	t.Logf("goroutines as before %v after the last round", time.Since(began).Round(time.Millisecond))
}

// tally counts the events of a storm.
type tally struct {
	starts, cut, stops, cutStops, early, calls, guests atomic.Int64
	longest                                            atomic.Int64 // by which goroutines of a node outlived its Stop
}

func (c *tally) String() string {
	return fmt.Sprintf("%d starts and %d cut short, %d stops and %d cut short, %d before the start, %d calls, %d "+
		"connections from outside; goroutines were gone %v after Stop at the latest",
		c.starts.Load(), c.cut.Load(), c.stops.Load(), c.cutStops.Load(), c.early.Load(), c.calls.Load(), c.guests.Load(),
		time.Duration(c.longest.Load()).Round(time.Millisecond))
}

// storm is one round.
type storm struct {
	t     *testing.T
	c     *clustertest.Cluster
	round int
	rnd   *rand.Rand // used only in the test's goroutine
	count *tally
	certs *certs // nil: without TLS
	nodes []*stormNode
}

func newStorm(t *testing.T, c *clustertest.Cluster, round int, rnd *rand.Rand, count *tally) *storm {
	w := &storm{t: t, c: c, round: round, rnd: rnd, count: count}
	if round%2 == 1 {
		w.certs = newCerts()
	}
	for i := range 2 + rnd.IntN(4) {
		w.nodes = append(w.nodes, w.newNode(i))
	}
	return w
}

// blow runs the round. It returns when all nodes are down and have been checked.
func (w *storm) blow() {
	over, end := context.WithCancel(context.Background())
	defer end()
	var callers, lives sync.WaitGroup
	for _, n := range w.nodes {
		for _, call := range stormCalls {
			callers.Go(func() { n.repeat(over, call) })
		}
	}
	var guests []guest
	for range 3 + w.rnd.IntN(6) {
		kinds := slices.Sorted(maps.Keys(guestKinds))
		kind, n := kinds[w.rnd.IntN(len(kinds))], w.nodes[w.rnd.IntN(len(w.nodes))]
		if g := guestKinds[kind](n); g != nil {
			guests = append(guests, g)
			w.count.guests.Add(1)
		}
	}
	for _, n := range w.nodes {
		lives.Go(n.live)
	}
	w.await("the nodes are down", &lives)
	for _, n := range w.nodes {
		if n.shares { // a stream that one node opened lasts until the last one stops watching
			n.lookForGoroutines()
		}
	}
	end()
	w.await("the calls have returned", &callers)
	for _, g := range guests {
		g()
	}
	w.lookForKeys()
}

// await fails the test with all stacks if something hangs.
func (w *storm) await(what string, wg *sync.WaitGroup) {
	w.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	timer := time.NewTimer(2 * stormPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		w.t.Fatalf("it hangs: not so after %v: %s (round %d of seed %d)\n%s", 2*stormPatience, what, w.round, *stormSeed,
			stacks())
	}
}

// lookForKeys fails the test for every remaining key and lease of a session.
func (w *storm) lookForKeys() {
	w.t.Helper()
	ctx := etcdtest.Context(w.t)
	keys := nodetest.Keys
	resp, err := w.c.Client().Get(ctx, keys.Prefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(w.t, err)
	for _, kv := range resp.Kvs {
		key := string(kv.Key)
		switch {
		case key == keys.ShardMap(), strings.HasPrefix(key, keys.Events()), strings.HasPrefix(key, keys.EffectMarks()),
			strings.HasPrefix(key, keys.Checkpoint(stormProcessor)), key == keys.ProcessorReport(stormProcessor):
			continue // they outlive every node
		case kv.Lease == 0:
			w.t.Errorf("a key is left that no lease will take along: %s", key)
		default:
			w.t.Errorf("a key is left: %s (lease %x)", key, kv.Lease)
		}
	}
}

var errStormCut = errors.New("cut short by the storm")

// phaseRunning returns the stacks of all goroutines, by number.
func phaseRunning() map[string]string {
	all := map[string]string{}
	for _, stack := range strings.Split(strings.TrimSpace(stacks()), "\n\n") {
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		all[id] = stack
	}
	return all
}

func stacks() string {
	for b := make([]byte, 1<<20); ; b = make([]byte, 2*len(b)) {
		if n := runtime.Stack(b, true); n < len(b) {
			return string(bytes.Clone(b[:n]))
		}
	}
}

// etcdServes occurs in the stacks of the goroutines that serve the storm's etcd. They may begin to run after the
// storm, and last as long as that etcd.
const etcdServes = "embed.(*serveCtx).startHandler"

// joined returns the stacks of new goroutines.
func joined(before, now map[string]string) string {
	var out []string
	for id, stack := range now {
		if _, ok := before[id]; !ok && !strings.Contains(stack, etcdServes) {
			out = append(out, stack)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n\n")
}
