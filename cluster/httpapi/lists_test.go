package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/internal/problem"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// read decodes the response of a page.
func read[T any](t *testing.T, h http.Handler, path string) (body T) {
	t.Helper()
	w := call(h, http.MethodGet, path)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return body
}

// Every node shows the work of the other nodes, in pages, whatever its names.
func TestClusterWideLists(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	ctx, here, there := etcdtest.Context(t), c.Node(0), c.Node(1)
	names := []string{"plain", "a name/with, all & 100%", "\xff no UTF-8", "..", "+"}
	for _, name := range names {
		e, err := there.Cluster().Elections().Stand(name)
		require.NoError(t, err)
		c.Eventually(e.IsLeader, "it leads")
		held, err := there.Cluster().Locks().Acquire(ctx, name, lock.Shared())
		require.NoError(t, err)
		defer func() { require.NoError(t, held.Release(ctx)) }()
		_, err = there.Cluster().Once(ctx, name, nothing)
		require.NoError(t, err)
	}
	h := New(here.Cluster(), Options{})
	shown := map[string]bool{}
	for _, name := range names {
		shown[strings.ToValidUTF8(name, "\uFFFD")] = true
	}
	follow := func(page string, found func(path string) ([]string, Page)) {
		t.Helper()
		seen, path, pages := map[string]bool{}, "/cluster/"+page+"?limit=2", 0
		for pages++; path != ""; pages++ {
			some, p := found(path)
			require.LessOrEqual(t, len(some), 2)
			require.WithinDuration(t, time.Now(), p.ReadAt, time.Minute)
			for _, name := range some {
				require.False(t, seen[name], "twice: %s", name)
				seen[name] = true
			}
			path = ""
			if p.Truncated {
				path = "/cluster/" + page + "?limit=2&after=" + p.Next
			}
		}
		require.Equal(t, shown, seen)
		require.Equal(t, 4, pages)
	}
	follow("elections", func(path string) (names []string, _ Page) {
		body := read[Elections](t, h, path)
		for _, e := range body.Elections {
			require.Equal(t, Election{Name: e.Name, LeaderID: there.Address(), Token: e.Token, Length: 1,
				Candidates: []Candidate{{Address: there.Address(), Member: true}}}, e)
			require.Positive(t, e.Token)
			names = append(names, e.Name)
		}
		return names, body.Page
	})
	follow("locks", func(path string) (names []string, _ Page) {
		body := read[Locks](t, h, path)
		for _, l := range body.Locks {
			require.Equal(t, Lock{Name: l.Name, Mode: LockShared, Length: 1,
				Holders: []LockHolder{{Owner: there.Address(), Token: l.Holders[0].Token}}}, l)
			names = append(names, l.Name)
		}
		return names, body.Page
	})
	follow("effects", func(path string) (names []string, _ Page) {
		body := read[Effects](t, h, path)
		for _, e := range body.Effects {
			require.Equal(t, Effect{Name: e.Name, State: "done", Attempt: 1, Token: e.Token, By: there.Address(), At: e.At,
				ResultBytes: 3}, e)
			names = append(names, e.Name)
		}
		return names, body.Page
	})
	require.Empty(t, read[Effects](t, h, "/cluster/effects?unknown=true").Effects)

	nodes := read[Nodes](t, h, "/cluster/nodes?limit=1")
	require.True(t, nodes.Truncated)
	rest := read[Nodes](t, h, "/cluster/nodes?limit=1&after="+nodes.Next)
	require.False(t, rest.Truncated)
	require.Len(t, append(nodes.Nodes, rest.Nodes...), 2)
	for _, n := range append(nodes.Nodes, rest.Nodes...) {
		require.Equal(t, HealthHealthy, n.Health)
		require.NotNil(t, n.Labels)
		require.NotNil(t, n.SeenSince)
		state := map[string]cluster.MemberState{here.Address(): "leader", there.Address(): "candidate"}[n.Address]
		require.Equal(t, state, n.State)
	}
	require.Empty(t, read[Nodes](t, h, "/cluster/nodes?after=zzz").Nodes)
}

func TestListsThatCannotBeShown(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	running, outside := New(c.Node(0).Cluster(), Options{}), New(follower(), Options{})
	for _, path := range []string{"/cluster/nodes", "/cluster/elections", "/cluster/locks", "/cluster/effects"} {
		p := problemIn(t, call(outside, http.MethodGet, path))
		require.Equal(t, problemTypes+"not-shown", p.Type)
		for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?after=", "?limit=1&limit=2", "?what=1",
			"?%zz", "?after=" + strings.Repeat("x", 513), "?unknown=perhaps"} {
			p := problemIn(t, call(running, http.MethodGet, path+query))
			require.Equal(t, http.StatusBadRequest, p.Status, "%s%s", path, query)
			require.Equal(t, problem.BlankType, p.Type)
		}
	}
	c.Node(0).Stop()
	for _, path := range []string{"/cluster/nodes", "/cluster/elections", "/cluster/locks", "/cluster/effects"} {
		w := call(running, http.MethodGet, path)
		require.Equal(t, problemTypes+"not-running", problemIn(t, w).Type, path)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
	}
}

// nothing is an effect.
func nothing(context.Context, int64) ([]byte, error) { return []byte("did"), nil }

// A hundred open dashboards cost etcd one read a second, because all share its result.
func TestDashboardsShareAnAnswer(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	h := New(c.Node(0).Cluster(), Options{MaxRequests: 100})
	for _, path := range []string{"/cluster/elections", "/cluster/locks", "/cluster/effects?unknown=true"} {
		began, reads := time.Now(), make(chan time.Time, 500)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range 5 {
					var p Page
					if json.Unmarshal(call(h, http.MethodGet, path).Body.Bytes(), &p) == nil {
						reads <- p.ReadAt
					}
				}
			})
		}
		wg.Wait()
		close(reads)
		answers, different := len(reads), map[time.Time]bool{}
		for at := range reads {
			different[at] = true
		}
		require.Equal(t, 500, answers)
		require.LessOrEqual(t, len(different), 1+int(time.Since(began)/listTTL), path)
	}
}

// A list cut short by its time-out is a page like any other, even an empty one, and can be continued.
func TestPageOfAListThatWasCutShort(t *testing.T) {
	t.Parallel()
	name := func(s string) string { return s }
	cut := fmt.Errorf("list: %w", &cluster.UnfinishedError{After: "c/d", Err: context.DeadlineExceeded})
	for _, found := range [][]string{nil, {"a", "b"}} {
		p, err := newPage(found, true, cut, name)
		require.NoError(t, err)
		require.True(t, p.Truncated)
		require.Equal(t, "c%2Fd", p.Next)
	}
	p, err := newPage([]string{"a", "b"}, true, nil, name)
	require.NoError(t, err)
	require.Equal(t, "b", p.Next)
	_, err = newPage[string](nil, false, context.DeadlineExceeded, name)
	require.Equal(t, context.DeadlineExceeded, err)
}
