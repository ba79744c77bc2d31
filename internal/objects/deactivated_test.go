package objects_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/probepb"
)

// neighbour returns another key of the same shard.
func neighbour(key string) string {
	for i := 0; ; i++ {
		if other := fmt.Sprint("beside ", i); shard.Of(other, 64) == shard.Of(key, 64) && other != key {
			return other
		}
	}
}

// farewell calls another object in Deactivated, and records the outcome.
type farewell struct {
	mu    sync.Mutex
	codes map[string]int // the number of calls, by code and reason
	last  string         // the message of the last failed call
}

func (f *farewell) call(ctx context.Context, p *probepb.Probe, key string) {
	_, err := probepb.NewProbeClient(p.Object.At(key)).Add(ctx, &probepb.AddRequest{Amount: 1})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.codes == nil {
		f.codes = map[string]int{}
	}
	f.codes[status.Code(err).String()+" "+objects.ReasonOf(err)]++
	if err != nil {
		f.last = err.Error()
	}
}

// The map lists the objects to call in Deactivated, by case.
var whom = map[string]func(key string) string{
	"itself":      func(key string) string { return key },
	"a partner":   partner,
	"a registry":  func(string) string { return "registry" },
	"a neighbour": neighbour,
}

// partner returns the key that calls back: for "of k" it is k.
func partner(key string) string {
	if len(key) > 3 && key[:3] == "of " {
		return key[3:]
	}
	return "of " + key
}

// Calls of Deactivated delay no move, no stop and no idle sweep, because they wait for nothing that may wait
// for them.
func TestDeactivatedCallsObjects(t *testing.T) {
	for name, other := range whom {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			callsWhenDeactivated(t, other)
		})
	}
}

func callsWhenDeactivated(t *testing.T, other func(key string) string) {
	var f farewell
	var mu sync.Mutex
	ended := map[objects.Reason]int{}
	c := clustertest.New(t, 0, clustertest.WithTTL(10), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 64, 20*time.Millisecond, 1
		cfg.Objects.IdleAfter = 4 * time.Second // so they outlive the start of a node
	}))
	w := &probepb.World{End: func(ctx context.Context, p *probepb.Probe, reason objects.Reason) {
		f.call(ctx, p, other(p.Object.Key()))
		mu.Lock()
		defer mu.Unlock()
		ended[reason]++
	}}
	first := addObjectNode(t, c, w)
	activate := func() {
		for k := range 100 {
			key := fmt.Sprint("k", k)
			for _, key := range []string{key, other(key)} {
				_, err := probepb.NewProbeClient(first.Cluster().Objects().At(key)).Add(patient(t), &probepb.AddRequest{})
				require.NoError(t, err)
			}
		}
	}
	seen := func(reason objects.Reason) int {
		mu.Lock()
		defer mu.Unlock()
		return ended[reason]
	}
	activate()
	meter := pace.StartMeter(t)
	began := time.Now()
	second := addObjectNode(t, c, w)
	require.Eventually(t, func() bool { return second.Cluster().Status().Shards.Serving == 32 }, time.Minute,
		time.Millisecond)
	join := time.Since(began)
	require.Positive(t, seen(objects.Moved))

	activate()
	began = time.Now()
	require.NoError(t, second.Cluster().Stop(patient(t)))
	stop := time.Since(began)
	require.Positive(t, seen(objects.Stopping))

	activate()
	require.Eventually(t, func() bool { return seen(objects.Idle) > 0 }, time.Minute, time.Millisecond)
	began = time.Now()
	_, err := probepb.NewProbeClient(first.Cluster().Objects().At("k1")).Add(patient(t), &probepb.AddRequest{})
	require.NoError(t, err)
	idle := time.Since(began)
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("join %v, stop %v, a call in the idle round %v; calls of Deactivated: %v, the last that failed: %s", join, stop,
		idle, f.codes, f.last)
	for _, took := range []time.Duration{join, stop, idle} {
		require.Less(t, took, meter.Scale(6*time.Second), "what waits in vain takes 10s")
	}
	for code := range f.codes {
		require.Contains(t, []string{codes.OK.String() + " ", codes.FailedPrecondition.String() + " " + objects.ReasonCycle,
			codes.Unavailable.String() + " " + objects.ReasonNotStarted}, code)
	}
}
