package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/internal/problem"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/probepb"
)

var _ ObjectSource = (*cluster.Cluster)(nil)

// fakeObjects is an objectView with fixed answers.
type fakeObjects struct {
	stats objects.Stats
	here  []objects.Activity // of every key
}

func (f *fakeObjects) Stats() objects.Stats                             { return f.stats }
func (f *fakeObjects) Find(string) (owner string, _ []objects.Activity) { return leaderAt, f.here }

// someObjects returns two services, one in use and one idle.
func someObjects() *fakeObjects {
	return &fakeObjects{
		stats: objects.Stats{Running: 3, Local: 11, Remote: 12, Retried: 13, Lost: 14, Services: []objects.ServiceStats{
			{Name: "shop.Cart", Active: 2, Waiting: 1, Panics: 4, Deactivations: map[objects.Reason]int64{objects.Idle: 7,
				objects.Moved: 0},
				Methods: []objects.MethodStats{{Name: "Add", Calls: map[codes.Code]int64{codes.OK: 90, codes.NotFound: 10},
					Refused: map[codes.Code]int64{codes.ResourceExhausted: 6}},
					{Name: "List", Calls: map[codes.Code]int64{}}},
				Latency: durations(10*time.Millisecond, 50, 100), Queued: durations(time.Second, 1)},
			{Name: "shop.Stock", Deactivations: map[objects.Reason]int64{}},
		}},
		here: []objects.Activity{{Service: "shop.Cart", State: "active", Epoch: 5, Waiting: 1, Running: 2,
			Age: 1500 * time.Millisecond}},
	}
}

// durations returns a histogram with these counts in its first buckets, and one more above all bounds.
func durations(sum time.Duration, counts ...int64) stats.Durations {
	d := stats.Durations{Sum: sum}
	for i := range 12 {
		if i < len(counts) {
			d.Count = counts[i]
		}
		d.Buckets = append(d.Buckets, stats.Bucket{AtMost: time.Duration(i+1) * time.Millisecond, Count: d.Count})
	}
	d.Count++
	return d
}

func withObjects(f *fake, o objectView) http.Handler {
	return newRouter(f, func() objectView { return o }, Options{})
}

func TestObjects(t *testing.T) {
	t.Parallel()
	h := withObjects(follower(), someObjects())
	var body map[string]any
	read := func(path string) {
		t.Helper()
		w := call(h, http.MethodGet, path)
		require.Equal(t, http.StatusOK, w.Code)
		body = nil
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	}
	read("/cluster/objects")
	want := map[string]any{
		"node_id": followerAt, "running": 3.0,
		"calls": map[string]any{"local": 11.0, "remote": 12.0, "retried": 13.0, "lost": 14.0},
		"services": []any{
			map[string]any{"name": "shop.Cart", "active": 2.0, "waiting": 1.0, "panics": 4.0,
				"deactivations": map[string]any{"idle": 7.0, "moved": 0.0},
				"methods": []any{map[string]any{"name": "Add", "calls": map[string]any{"OK": 90.0, "NotFound": 10.0}},
					map[string]any{"name": "List", "calls": map[string]any{}}},
				"latency": map[string]any{"count": 101.0, "mean_seconds": 0.000099009, "p50_at_most_seconds": 0.002,
					"p99_at_most_seconds": 0.002},
				"queued": map[string]any{"count": 2.0, "mean_seconds": 0.5, "p50_at_most_seconds": 0.001}},
			map[string]any{"name": "shop.Stock", "active": 0.0, "waiting": 0.0, "panics": 0.0,
				"deactivations": map[string]any{}, "methods": []any{},
				"latency": map[string]any{"count": 0.0, "mean_seconds": 0.0},
				"queued":  map[string]any{"count": 0.0, "mean_seconds": 0.0}},
		},
	}
	require.Equal(t, want, body)

	for _, key := range []string{"alice", "a/b c&key=d", "\x00\n;", strings.Repeat("k", objects.MaxKey)} {
		read("/cluster/objects?key=" + url.QueryEscape(key))
		want["key"] = map[string]any{"key": key, "shard": float64(shard.Of(key, 8)), "owner": leaderAt, "here": []any{
			map[string]any{"service": "shop.Cart", "state": "active", "epoch": 5.0, "waiting": 1.0, "running": 2.0,
				"age_seconds": 1.5}}}
		require.Equal(t, want, body)
	}
	off := follower()
	off.status.Shards = shard.Stats{}
	h = withObjects(off, &fakeObjects{})
	read("/cluster/objects?key=%ff")
	require.Equal(t, map[string]any{"key": "\ufffd", "owner": leaderAt, "here": []any{}}, body["key"],
		"with sharding off, a node still calls objects and knows where they are")
	require.Equal(t, []any{}, body["services"])
}

// Each reason for having nothing to show is reported in one line.
func TestNoObjects(t *testing.T) {
	t.Parallel()
	for says, tc := range map[string]struct {
		f     *fake
		o     objectView
		query string
		code  int
	}{
		"this program shows no objects":             {follower(), nil, "", http.StatusNotFound},
		"this node is starting":                     {starting(), someObjects(), "", http.StatusServiceUnavailable},
		"the node has stopped":                      {stopped(), nil, "?key=%zz", http.StatusServiceUnavailable},
		"a key has 1 to 1024 bytes, and this one 0": {follower(), someObjects(), "?key=", http.StatusBadRequest},
		"and this one 1025": {follower(), someObjects(), "?key=" + strings.Repeat("k", objects.MaxKey+1),
			http.StatusBadRequest},
		"percent-encoded": {follower(), someObjects(), "?key=%zz", http.StatusBadRequest},
	} {
		w := call(withObjects(tc.f, tc.o), http.MethodGet, "/cluster/objects"+tc.query)
		require.Equal(t, tc.code, w.Code, says)
		var body problem.Problem
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
		require.Contains(t, body.Detail, says)
		require.NotContains(t, body.Detail, "\n")
		require.Equal(t, tc.code == http.StatusServiceUnavailable, w.Header().Get("Retry-After") != "", says)
	}
	code, _ := get(t, follower(), "/cluster/objects")
	require.Equal(t, http.StatusNotFound, code, "its source has no objects")
}

func TestObjectMetrics(t *testing.T) {
	t.Parallel()
	text := scrape(t, withObjects(follower(), someObjects()))
	for _, line := range []string{
		`active{service="shop.Cart"} 2`, `active{service="shop.Stock"} 0`, `waiting{service="shop.Cart"} 1`,
		"turns_running 3", `panics_total{service="shop.Cart"} 4`,
		`calls_total{code="OK",method="Add",service="shop.Cart"} 90`,
		`calls_total{code="NotFound",method="Add",service="shop.Cart"} 10`,
		`calls_refused_total{code="ResourceExhausted",method="Add",service="shop.Cart"} 6`,
		`deactivations_total{reason="idle",service="shop.Cart"} 7`,
		`deactivations_total{reason="moved",service="shop.Cart"} 0`,
		`calls_made_total{to="local"} 11`, `calls_made_total{to="remote"} 12`, "calls_retried_total 13",
		"calls_lost_total 14",
		`call_duration_seconds_bucket{service="shop.Cart",le="0.001"} 50`,
		`call_duration_seconds_bucket{service="shop.Cart",le="0.002"} 100`,
		`call_duration_seconds_bucket{service="shop.Cart",le="+Inf"} 101`,
		`call_duration_seconds_sum{service="shop.Cart"} 0.01`, `call_duration_seconds_count{service="shop.Cart"} 101`,
		`queue_duration_seconds_sum{service="shop.Cart"} 1`, `queue_duration_seconds_count{service="shop.Stock"} 0`,
	} {
		require.Contains(t, text, "goverse_objects_"+line+"\n")
	}
	require.Contains(t, text, "one call in eight is timed")
	require.NotContains(t, text, `method="List"`, "nobody called it")

	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.NotContains(t, p.Metric, "goverse_objects_", p.Text)
	}
	require.NotContains(t, scrape(t, withObjects(follower(), nil)), "goverse_objects_")
	require.NotContains(t, scrape(t, withObjects(starting(), someObjects())), "goverse_objects_")
}

// Two nodes that host objects.
func TestObjectsOfNodes(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 64, 20*time.Millisecond, 2
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	world := &probepb.World{}
	begun, release := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	world.SetAction("wait", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		close(begun)
		<-release
		return &probepb.DoResponse{}, nil
	})
	var pages []http.Handler
	for range 2 {
		n := c.NewNode()
		world.Register(n.Cluster(), n.Address())
		page := New(n.Cluster(), Options{})
		require.Equal(t, http.StatusServiceUnavailable, call(page, http.MethodGet, "/cluster/objects").Code)
		require.NoError(t, n.Start(ctx))
		pages = append(pages, page)
	}
	read := func(i int) (o Objects) {
		t.Helper()
		w := call(pages[i], http.MethodGet, "/cluster/objects?key=alice")
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &o))
		return o
	}
	alice := probepb.NewProbeClient(c.Node(0).Cluster().Objects().At("alice"))
	for range 20 {
		_, err := alice.Add(ctx, &probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
	}
	_, err := alice.Do(ctx, &probepb.DoRequest{What: "nothing"})
	require.Equal(t, codes.NotFound, status.Code(err))
	done := make(chan error, 1)
	go func() {
		_, err := alice.Do(ctx, &probepb.DoRequest{What: "wait"})
		done <- err
	}()
	<-begun

	// The map may have reached only one of them.
	c.Eventually(func() bool { return read(0).Key.Owner != "" && read(1).Key.Owner != "" }, "both know the owner")
	owner := 0
	if read(0).Key.Owner != c.Node(0).Address() {
		owner = 1
	}
	here, there := read(owner), read(1-owner)
	require.Equal(t, c.Node(owner).Address(), here.Key.Owner)
	require.Equal(t, c.Node(owner).Address(), there.Key.Owner)
	require.Equal(t, shard.Of("alice", 64), *here.Key.Shard)
	require.Empty(t, there.Key.Here)
	require.Len(t, here.Key.Here, 1)
	activity := here.Key.Here[0]
	require.Equal(t, "goverse.testkit.probe.Probe", activity.Service)
	require.Equal(t, "active", activity.State)
	require.Equal(t, 1, activity.Running)
	require.Positive(t, activity.Epoch)
	require.Positive(t, activity.Age)
	require.Equal(t, 1, here.Running)
	require.Len(t, here.Services, 1)
	require.EqualValues(t, 1, here.Services[0].Active)
	require.Contains(t, here.Services[0].Methods, ObjectMethod{Name: "Add", Calls: map[string]int64{"OK": 20}})
	require.Contains(t, here.Services[0].Methods, ObjectMethod{Name: "Do", Calls: map[string]int64{"NotFound": 1}})
	require.Positive(t, here.Services[0].Latency.Count)
	require.NotNil(t, here.Services[0].Latency.P99AtMost)
	require.Zero(t, there.Services[0].Active)
	calls := read(0).Calls
	require.GreaterOrEqual(t, calls.Local+calls.Remote, int64(22))

	text := scrape(t, pages[owner])
	for _, line := range []string{`active{service="goverse.testkit.probe.Probe"} 1`, "turns_running 1",
		`calls_total{code="OK",method="Add",service="goverse.testkit.probe.Probe"} 20`,
		`deactivations_total{reason="evicted",service="goverse.testkit.probe.Probe"} 0`,
		`call_duration_seconds_bucket{service="goverse.testkit.probe.Probe",le="1e-05"} `} {
		require.Contains(t, text, "goverse_objects_"+line)
	}
	end()
	require.NoError(t, <-done)
}
