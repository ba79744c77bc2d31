package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/internal/problem"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(tests{m})
}

// tests runs all tests, and then ends the program that checked their responses.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if err := description.close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

// The handlers are made for a Cluster.
var (
	_ Source = (*cluster.Cluster)(nil)
)

// fake is a source with fixed answers.
type fake struct {
	status cluster.Status
	info   cluster.LeaderInfo
	err    error
	shards *state.Snapshot // source of the table
}

func (f *fake) ShardTable() (shard.Table, error) { return shardview.New(f.shards) }

func (f *fake) Status() cluster.Status { return f.status }
func (f *fake) LeaderInfo(context.Context) (cluster.LeaderInfo, error) {
	return f.info, f.err
}

const leaderAt, followerAt = "127.0.0.1:47001", "127.0.0.1:47002"

// follower returns a node that follows leaderAt.
func follower() *fake {
	seen := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &fake{
		status: cluster.Status{
			NodeID: followerAt, State: cluster.StateCandidate, LeaderID: leaderAt, Token: 7, Mode: leaderelection.ModeElection,
			Ready: true, ClusterReady: true,
			Queue: []string{leaderAt, followerAt}, Nodes: []string{leaderAt, followerAt}, Revision: 9,
			Watchers: 3, SilenceTimeout: 3500 * time.Millisecond, ArmedWatchers: 2, Proof: cluster.ProofRead,
			Crashes: cluster.CrashStats{Watching: 2, Accusations: 11, Removals: 12, Refuted: 13, Refutations: 14,
				SilenceAccusations: 6, SilenceRemovals: 5, WatchersLost: 15, LastGracePeriod: 150 * time.Millisecond},
			SessionValid: true, SessionTTL: 10 * time.Second, Deadline: time.Now().Add(8 * time.Second),
			Terms: 2, SessionsLost: 3, Rebuilds: 4, Shards: shardStatus(),
		},
		shards: shardSnapshot(shardMap),
		info: cluster.LeaderInfo{
			Leader: leaderelection.Leader{Address: leaderAt, Token: 7, Mode: leaderelection.ModeElection, Member: true,
				Lease: 1},
			Hostname: "host", HTTPAddress: "127.0.0.1:48001",
			AcquiredAt: seen, RenewedAt: seen.Add(time.Second), ExpiresAt: seen.Add(11 * time.Second), Estimated: true,
		},
	}
}

// shardStatus returns that of followerAt. leaderAt has yet to release one of its four shards.
func shardStatus() shard.Stats {
	var st shard.Stats
	st.Shards, st.Acquiring, st.Serving, st.Releasing, st.Waiting = 8, 1, 2, 3, 1
	st.Plans, st.Assigned, st.Drained, st.Rebalanced, st.PlanTime = 6, 21, 22, 23, 1500*time.Microsecond
	st.Pauses.Count, st.Pauses.Sum = 3, 2*time.Second
	for i := range 15 {
		st.Pauses.Buckets = append(st.Pauses.Buckets, stats.Bucket{AtMost: time.Duration(i+1) * time.Millisecond,
			Count: int64(min(i, 3))})
	}
	return st
}

const shardMap = `{"version":1,"shards":8,"generation":5,
		"grants":[{"address":"127.0.0.1:47001","incarnation":2,"epoch":3,"shards":"0-3"},
			{"address":"127.0.0.1:47002","incarnation":4,"epoch":5,"shards":"4-7"}],
		"moves":[{"address":"127.0.0.1:47001","incarnation":2,"since":5,"shards":"4-7"}]}`

// shardSnapshot returns a view of the cluster with this shard map; "" means no map.
func shardSnapshot(value string) *state.Snapshot {
	keys, _ := state.NewKeys("/goverse") // the prefix is valid
	node := state.Record{Shards: 8}.Encode()
	kvs := []state.KV{{Key: keys.Node(leaderAt), Value: []byte(node), CreateRevision: 2, ModRevision: 2},
		{Key: keys.Node(followerAt), Value: []byte(node), CreateRevision: 4, ModRevision: 4}}
	if value != "" {
		report := sharding.Report{Incarnation: 2, Generation: 5, Busy: []int{6}}.Encode()
		kvs = append(kvs, state.KV{Key: keys.ShardMap(), Value: []byte(value), CreateRevision: 3, ModRevision: 6},
			state.KV{Key: keys.Released(leaderAt), Value: report, CreateRevision: 7, ModRevision: 7})
	}
	return state.BuildSnapshot(keys, 1, 9, kvs)
}

// leader returns leaderAt itself.
func leader() *fake {
	f := follower()
	f.status.NodeID, f.status.State, f.status.IsLeader = leaderAt, cluster.StateLeader, true
	f.info.Estimated = false
	return f
}

// starting returns a node that is not part of a cluster yet, stopped one that no longer is.
func starting() *fake { return outside(cluster.StateStarting) }
func stopped() *fake  { return outside(cluster.StateStopped) }

func outside(at cluster.NodeState) *fake {
	return &fake{status: cluster.Status{NodeID: followerAt, State: at, Mode: leaderelection.ModeElection},
		err: leaderelection.ErrNoLeader}
}

func call(h http.Handler, method, path string) *httptest.ResponseRecorder {
	return serve(h, httptest.NewRequest(method, path, nil))
}

// serve answers a request, and checks the response against its OpenAPI description.
func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if ours, ok := h.(*router); ok {
		if err := description.check(ours, r, w); err != nil {
			panic(fmt.Sprintf("%s %s: openapi.json says otherwise: %v\n%s", r.Method, r.URL, err, w.Body))
		}
	}
	return w
}

// get returns the response's status code and JSON object.
func get(t *testing.T, f *fake, path string) (int, map[string]any) {
	t.Helper()
	w := call(New(f, Options{Version: "v1"}), http.MethodGet, path)
	require.Equal(t, map[bool]string{true: "application/json", false: problem.MediaType}[w.Code == http.StatusOK],
		w.Header().Get("Content-Type"))
	var body map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body.String())
	return w.Code, body
}
