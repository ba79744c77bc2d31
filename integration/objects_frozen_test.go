//go:build unix

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/probepb"
)

var (
	frozenRounds = flag.Int("frozen.rounds", 1, "how often TestCallersOfAFrozenLeader stops a leader; 20 in the full run")
	frozenTTL    = flag.Int("frozen.ttl", 0, "its TTL in seconds; 0 is a short one, and 10 that of the full run")
	frozenSlack  = flag.Duration("frozen.slack", 4*time.Second, "for how much longer than a TTL a call may wait; 1s in "+
		"the full run")
)

// freezeTest holds calls of the objects of a leader that is about to be frozen.
type freezeTest struct {
	w     *objectWorld
	calls sync.WaitGroup
	stop  context.Context

	mu       sync.Mutex
	longest  map[string]time.Duration // by the path of the calls
	outcomes map[string]map[string]int
	acked    map[string]int64 // by key
	unsure   map[string]int64
}

// recordCall records the result and the duration of a call.
func (f *freezeTest) recordCall(way, key string, took time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.longest[way] = max(f.longest[way], took)
	outcome := "OK"
	switch {
	case err == nil:
		f.acked[key]++
	case objects.ReasonOf(err) == objects.ReasonMayHaveStarted:
		f.unsure[key]++
		outcome = objects.ReasonMayHaveStarted
	case objects.NotStarted(err):
		outcome = "not started: " + status.Convert(err).Message()
	default:
		f.unsure[key]++
		outcome = "FORBIDDEN: " + err.Error()
	}
	if f.outcomes[way] == nil {
		f.outcomes[way] = map[string]int{}
	}
	f.outcomes[way][outcome]++
}

// repeatCalls makes one call after the other until the test stops it. Each has a deadline that no call should need.
func (f *freezeTest) repeatCalls(way, key string, call func(ctx context.Context) error) {
	f.calls.Go(func() {
		for f.stop.Err() == nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			began := time.Now()
			err := call(ctx)
			f.recordCall(way, key, time.Since(began), err)
			cancel()
			pause := time.NewTimer(callPause)
			select {
			case <-pause.C:
			case <-f.stop.Done():
			}
			pause.Stop()
		}
	})
}

// startScattered starts calls at a fixed rate without waiting for earlier ones, so that some start just when the
// objects move.
func (f *freezeTest) startScattered(way, key string, probe probepb.ProbeClient) {
	f.calls.Go(func() {
		for again := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-again.C:
			case <-f.stop.Done():
				again.Stop()
				return
			}
			f.calls.Go(func() {
				ctx, cancel := context.WithTimeout(at(context.Background(), key), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := probe.Add(ctx, &probepb.AddRequest{Amount: 1})
				f.recordCall(way, key, time.Since(began), err)
			})
		}
	})
}

// incrementRepeatedly increments a counter again and again.
func (f *freezeTest) incrementRepeatedly(way, key string, probe probepb.ProbeClient) {
	f.repeatCalls(way, key, func(ctx context.Context) error {
		_, err := probe.Add(at(ctx, key), &probepb.AddRequest{Amount: 1})
		return err
	})
}

func (f *freezeTest) chatRepeatedly(way, key string, probe probepb.ProbeClient) {
	f.repeatCalls(way, key, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(at(ctx, key))
		defer cancel()
		stream, err := probe.Chat(ctx)
		for range 5 {
			if err == nil {
				err = stream.Send(&probepb.Blob{Data: []byte("hello")})
			}
			if err == nil || errors.Is(err, io.EOF) { // Recv returns the reason that Send failed
				_, err = stream.Recv()
			}
		}
		return err
	})
}

// at adds the object's key to the context of a call from outside.
func at(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, key)
}

// The leader, which owns objects, is frozen for longer than its TTL. All callers of its objects get an answer
// soon after a TTL, whichever path their calls take, and no call takes effect twice.
func TestCallersOfAFrozenLeader(t *testing.T) {
	t.Parallel()
	ttl := *frozenTTL
	if ttl == 0 {
		ttl = briefTTL()
	}
	w := newObjectWorld(t, ttl, "")
	workers := w.start(3)
	byAll, fromOne := w.dial(workers...), map[*objectsWorker]*client.Client{}
	outside := map[*objectsWorker]probepb.ProbeClient{}
	for _, worker := range workers {
		outside[worker], fromOne[worker] = w.outside(worker), w.dial(worker)
	}
	acked, unsure, counted := map[string]int64{}, map[string]int64{}, map[string]bool{}
	var all []time.Duration
	for round := range *frozenRounds {
		leader := w.leader(workers)
		i := slices.Index(workers, leader)
		third := workers[(i+1)%len(workers)]
		stop, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := &freezeTest{w: w, stop: stop, longest: map[string]time.Duration{}, outcomes: map[string]map[string]int{},
			acked: acked, unsure: unsure}
		keys := w.ownedAll(leader, 11, round)
		ofClient, ofNaive := probepb.NewProbeClient(byAll.At(keys[2])), probepb.NewProbeClient(fromOne[leader].At(keys[3]))
		for _, key := range keys[:7] {
			counted[key] = true
		}
		f.incrementRepeatedly("node", keys[0], w.client(keys[0]))
		f.incrementRepeatedly("outside", keys[1], outside[third])
		f.incrementRepeatedly("client", keys[2], ofClient)
		f.incrementRepeatedly("client of the leader", keys[3], ofNaive)
		f.chatRepeatedly("stream of a node", keys[7], w.client(keys[7]))
		f.chatRepeatedly("stream from outside", keys[8], outside[third])
		f.chatRepeatedly("stream of a client", keys[9], probepb.NewProbeClient(byAll.At(keys[9])))
		f.chatRepeatedly("stream of a client of the leader", keys[10], probepb.NewProbeClient(fromOne[leader].At(keys[10])))
		f.startScattered("scattered, node", keys[4], w.client(keys[4]))
		f.startScattered("scattered, outside", keys[5], outside[third])
		f.startScattered("scattered, client", keys[6], probepb.NewProbeClient(byAll.At(keys[6])))
		f.awaitProgress(11, 3)
		frozenAt := leader.Freeze(t)
		procs.Await(t, workPatience, "the caller knows of the next owners", func() error {
			if w.ownedShards(leader) > 0 {
				return errNotYet
			}
			return nil
		})
		moved := time.Since(frozenAt)
		f.awaitProgress(11, 3)
		t.Logf("round %d: shards moved after %v; a further call of each caller ended after %v", round, brief(moved),
			brief(time.Since(frozenAt)))
		leader.Thaw(t)
		cancel()
		f.calls.Wait()
		for _, way := range slices.Sorted(maps.Keys(f.longest)) {
			t.Logf("  %-34s longest %8v  %v", way, f.longest[way].Round(time.Millisecond), f.outcomes[way])
			all = append(all, f.longest[way])
			if limit := time.Duration(ttl)*time.Second + *frozenSlack; f.longest[way] > limit {
				t.Errorf("a call by the way %q took %v, more than %v", way, f.longest[way], limit)
			}
			for outcome := range f.outcomes[way] {
				require.NotContains(t, outcome, "FORBIDDEN")
			}
		}
		w.awaitShared(workers)
	}
	t.Log("longest waits:", quantiles(all))
	sums := w.stored()
	for key, n := range acked { // includes chats, which store nothing
		if sum := sums[key]; counted[key] && (sum < n || sum > n+unsure[key]) {
			t.Errorf("%s is %d, of %d increments that were acknowledged and %d that may have been", key, sum, n, unsure[key])
		}
	}
}

// awaitProgress waits until each of the callers has the given number of further calls answered.
func (f *freezeTest) awaitProgress(callers, calls int) {
	f.w.Helper()
	ended := func() map[string]int {
		f.mu.Lock()
		defer f.mu.Unlock()
		sums := map[string]int{}
		for way, outcomes := range f.outcomes {
			for _, n := range outcomes {
				sums[way] += n
			}
		}
		return sums
	}
	before := ended()
	procs.Await(f.w.T, workPatience, "calls end", func() error {
		now := ended()
		if len(now) < callers {
			return fmt.Errorf("%d of %d callers have had an answer", len(now), callers)
		}
		for way, n := range now {
			if n < before[way]+calls {
				return fmt.Errorf("%s: %d calls have ended, of which %d before", way, n, before[way])
			}
		}
		return nil
	})
}

// leader returns the worker that leads.
func (w *objectWorld) leader(workers []*objectsWorker) (found *objectsWorker) {
	w.Helper()
	procs.Await(w.T, workPatience, "a worker leads", func() error {
		leader := inspect.Snapshot(w.caller).Leader().Address
		i := slices.IndexFunc(workers, func(one *objectsWorker) bool { return one.address == leader })
		if i < 0 {
			return fmt.Errorf("the leader is %q", leader)
		}
		found = workers[i]
		return nil
	})
	return found
}

// ownedAll returns n keys owned by a worker, which only this round uses.
func (w *objectWorld) ownedAll(worker *objectsWorker, n, round int) (keys []string) {
	w.Helper()
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("round-", round, "-", i); w.owner(key) == worker.address {
			keys = append(keys, key)
		}
	}
	return keys
}

// dial returns a client that knows these workers.
func (w *objectWorld) dial(workers ...*objectsWorker) *client.Client {
	w.Helper()
	cfg := client.Config{Prefix: procs.Prefix}
	for _, worker := range workers {
		cfg.Addresses = append(cfg.Addresses, worker.address)
	}
	ctx, cancel := context.WithTimeout(w.Context(), workPatience)
	defer cancel()
	c, err := client.Dial(ctx, cfg)
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() })
	return c
}
