package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/probepb"
)

// The figures of nodes add up by service. A node without an answer is named, and lists are limited.
func TestFiguresAddUp(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	one := cluster.Figures{Address: followerAt, Processors: processors()[:1],
		Busy:    []cluster.ShardFigures{{Shard: 3, TurnsPerSecond: 40}, {Shard: 1, TurnsPerSecond: 1}},
		Samples: []stats.Sample{{Time: noon, Calls: 5, Lag: 1}},
		Services: []cluster.ServiceFigures{{Name: "shop.Cart", Active: 2, Waiting: 1, Calls: 90, Failed: 9, Panics: 1,
			CallsPerSecond: 44, FailedPerSecond: 0.5, Latency: durations(10*time.Millisecond, 50, 100)}}}
	two := cluster.Figures{Address: leaderAt, Samples: []stats.Sample{{Time: noon, Calls: 7, Lag: -1}},
		Busy: []cluster.ShardFigures{{Shard: 2, TurnsPerSecond: 2}}, Processors: processors(),
		Services: []cluster.ServiceFigures{{Name: "shop.Cart", Active: 1, Calls: 10, CallsPerSecond: 2,
			Latency: stats.Durations{Count: 300, Sum: 3 * time.Second,
				Buckets: []stats.Bucket{{AtMost: 10 * time.Millisecond, Count: 300}}}},
			{Name: "shop.Stock", Active: 1}}}
	all := []cluster.Figures{one, two}
	for i := range maxMissing + 5 {
		all = append(all, cluster.Figures{Address: fmt.Sprintf("gone:%d", i), Error: "no answer in time"})
	}
	st := cluster.Status{NodeID: followerAt, Shards: shard.Stats{}}
	st.Shards.Shards = 64
	got := newFigures(st, all)
	require.Equal(t, 27, got.Nodes)
	require.Equal(t, 25, got.MissingCount)
	require.Len(t, got.Missing, maxMissing)
	require.Equal(t, MissingNode{"gone:0", "no answer in time"}, got.Missing[0])
	require.Len(t, got.Services, 2)
	cart := got.Services[0]
	require.Equal(t, ClusterService{Name: "shop.Cart", Nodes: 2, Active: 3, Waiting: 1, Calls: 100, Failed: 9, Panics: 1,
		CallsPerSecond: 46, FailedPerSecond: 0.5, Latency: cart.Latency, Queued: cart.Queued}, cart)
	require.EqualValues(t, 401, cart.Latency.Count)
	require.InDelta(t, 0.010, *cart.Latency.P50AtMost, 1e-9, "most calls are those of the slower node")
	require.Nil(t, cart.Queued.P99AtMost)
	require.Equal(t, []string{"outbox", "views", "views"},
		[]string{got.Processors[0].Name, got.Processors[1].Name, got.Processors[2].Name})
	require.Equal(t, leaderAt, got.Processors[1].Node)
	require.Equal(t, []BusyShard{{3, followerAt, 40, true}, {2, leaderAt, 2, false}, {1, followerAt, 1, false}}, got.Busy)
	require.Equal(t, []stats.Sample{{Time: noon, Calls: 12, Lag: 1}}, got.Samples)
	require.Equal(t, one.Samples, got.Own)

	st.Shards.Shards = 4
	require.False(t, newFigures(st, all).Busy[0].Hot, "of four shards, one with most calls is nothing special")
}

// Whatever the nodes report, the answer is limited and can be encoded.
func TestFiguresOfManyAreLimited(t *testing.T) {
	t.Parallel()
	var all []cluster.Figures
	for n := range 10 {
		f := cluster.Figures{Address: fmt.Sprintf("%d:1", n), Samples: []stats.Sample{{Seconds: math.MaxFloat64,
			RenewalSeconds: math.MaxFloat64, LeaderlessSeconds: math.MaxFloat64, QueuedSeconds: math.MaxFloat64}}}
		for i := range 200 {
			f.Services = append(f.Services, cluster.ServiceFigures{Name: fmt.Sprintf("%d-%d", n*(i%2), i),
				CallsPerSecond: math.MaxFloat64, FailedPerSecond: -math.MaxFloat64})
			f.Processors = append(f.Processors, processor.Status{Name: "a"})
			f.Busy = append(f.Busy, cluster.ShardFigures{Shard: i, TurnsPerSecond: math.MaxFloat64})
		}
		all = append(all, f)
	}
	got := newFigures(cluster.Status{}, all)
	require.Len(t, got.Services, maxServices)
	require.Len(t, got.Processors, maxProcessors)
	require.Len(t, got.Busy, maxBusyShards)
	_, err := json.Marshal(got)
	require.NoError(t, err)
}

// All nodes are asked a few times a second at most, whatever the questions.
func TestFiguresAreAskedForAtARate(t *testing.T) {
	t.Parallel()
	c, asked := newFiguresCache(), 0
	began := time.Now()
	for i := range 100 {
		_, _ = c.get(t.Context(), fmt.Sprint(i), time.Minute, func(context.Context) (any, error) {
			asked++
			return nil, nil
		})
	}
	require.Positive(t, asked)
	require.LessOrEqual(t, asked, figuresPerSecond*(2+1+int(time.Since(began).Seconds())))
}

// Requests within one interval have one question, and none goes back further than an hour.
func TestRoundSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 5, 0, time.UTC)
	noon := now.Truncate(time.Minute)
	for since, want := range map[time.Time]time.Time{
		noon: noon, noon.Add(1): noon.Add(20 * time.Second), noon.Add(20 * time.Second): noon.Add(20 * time.Second),
		noon.Add(-48 * time.Hour): noon.Add(-time.Hour + 20*time.Second), now: noon.Add(20 * time.Second),
	} {
		require.Equal(t, want.Add(-1), roundSince(since, now), "%s", since)
	}
}

func readFigures(t *testing.T, page http.Handler, query string) (f Figures) {
	t.Helper()
	w := call(page, http.MethodGet, "/cluster/figures"+query)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &f))
	return f
}

// Any node answers for all nodes, also for one that hosts nothing, and names those that do not answer.
func TestFiguresOfNodes(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 64, 20*time.Millisecond, 2
		cfg.CrashDetection.Off = true // the record of a node that does not exist is to stay
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	world := &probepb.World{}
	var pages []http.Handler
	for i := range 2 {
		n := c.NewNode()
		world.Register(n.Cluster(), n.Address())
		report := func() []processor.Status { return processors()[i : i+1] }
		if i == 1 {
			report = func() []processor.Status { panic("of the program") }
		}
		pages = append(pages, New(n.Cluster(), Options{Processors: report}))
		require.NoError(t, n.Start(ctx))
	}
	for i := range 30 {
		probe := probepb.NewProbeClient(c.Node(0).Cluster().Objects().At(fmt.Sprint(i)))
		_, err := probe.Add(ctx, &probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
	}
	// Other ones answer after a moment, when a connection is made.
	c.Eventually(func() bool { return readFigures(t, pages[1], "").MissingCount == 0 }, "both answer")
	for i, page := range pages {
		f := readFigures(t, page, "")
		require.Equal(t, c.Node(i).Address(), f.NodeID)
		require.Equal(t, 2, f.Nodes)
		require.Len(t, f.Services, 1)
		require.Equal(t, 2, f.Services[0].Nodes)
		require.EqualValues(t, 30, f.Services[0].Active)
		require.EqualValues(t, 30, f.Services[0].Calls)
		require.NotEmpty(t, f.Busy)
		require.Len(t, f.Processors, 1)
		require.Equal(t, c.Node(0).Address(), f.Processors[0].Node)
		require.Empty(t, f.Samples, "they were not requested")
	}
	require.Equal(t, http.StatusBadRequest, call(pages[0], http.MethodGet, "/cluster/figures?since=x").Code)

	stray := "127.0.0.1:1"
	granted, err := c.Client().Grant(ctx, 600)
	require.NoError(t, err)
	defer func() {
		_, err := c.Client().Revoke(context.Background(), granted.ID)
		require.NoError(t, err)
	}()
	record := state.Record{InstanceID: "x", Lease: int64(granted.ID), TTL: 600, Shards: 64, Weight: 1, Observer: true}
	_, err = c.Client().Put(ctx, clustertest.Prefix+"/nodes/"+stray, record.Encode(), clientv3.WithLease(granted.ID))
	require.NoError(t, err)
	c.Eventually(func() bool {
		f := readFigures(t, pages[0], "")
		return f.MissingCount == 1 && f.Missing[0].Address == stray && f.Missing[0].Error != "" && len(f.Services) == 1
	}, "a node without an answer is named, and the others are shown")

	c.Within(time.Minute, func() bool {
		f := readFigures(t, pages[1], "?since=1h")
		return len(f.Samples) > 0 && f.Samples[0].Calls == 30 && f.Samples[0].Lag == 12 && len(f.Own) > 0
	}, "the cluster's calls are in a sample")
	f := readFigures(t, pages[1], "?since=1h")
	last := f.Samples[len(f.Samples)-1].Time
	later := readFigures(t, pages[1], "?since="+url.QueryEscape(last.Format(time.RFC3339)))
	require.LessOrEqual(t, len(later.Samples), 3)
}
