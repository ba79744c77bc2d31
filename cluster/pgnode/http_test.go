//go:build unix

package pgnode_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgnode"
	processorpg "github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/pace"
)

// A node is a source of all that PostgreSQL has.
var (
	_ httpapi.Source         = (*pgnode.Node)(nil)
	_ httpapi.NodeSource     = (*pgnode.Node)(nil)
	_ httpapi.EventSource    = (*pgnode.Node)(nil)
	_ httpapi.ElectionSource = (*pgnode.Node)(nil)
	_ httpapi.LockSource     = (*pgnode.Node)(nil)
	_ httpapi.ChangeSource   = (*pgnode.Node)(nil)
	_ event.Log              = (*pgnode.Events)(nil)
)

// serve serves a node over HTTP and returns its URL.
func serve(t *testing.T, p *process) string {
	t.Helper()
	s := httptest.NewServer(httpapi.New(p, httpapi.Options{Version: "v1", Admin: &httpapi.Admin{
		Authorize: httpapi.BearerToken("ops", "a-secret-of-sixteen")}}))
	t.Cleanup(s.Close)
	return s.URL
}

// get returns the status and the body of a page.
func get[T any](t testing.TB, url string) (code int, body T) {
	t.Helper()
	r, err := http.Get(url) //nolint:noctx // a test
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Body.Close()) }()
	require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
	return r.StatusCode, body
}

type problem struct{ Type, Detail string }

// await requests a page until it is as expected.
func await[T any](t *testing.T, url string, done func(code int, body T) bool) (body T) {
	t.Helper()
	eventually(t, url, func() bool {
		var code int
		code, body = get[T](t, url)
		return done(code, body)
	})
	return body
}

func TestOverHTTP(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "node-a", deadline, pgnode.Config{HTTPAddress: "a.example:1", Version: "2"})
	awaitLeader(t, "node-a", 1, a)
	b := join(t, shared.URL(), schema, "node-b", deadline, pgnode.Config{HTTPAddress: "https://b.example"})
	awaitLeader(t, "node-a", 2, a, b)
	urlA, urlB := serve(t, a), serve(t, b)

	st := await(t, urlB+"/cluster/status", func(_ int, st httpapi.Status) bool { return len(st.Queue) == 2 })
	require.Equal(t, "node-b", st.NodeID)
	require.Equal(t, "candidate", st.State)
	require.Equal(t, "node-a", st.LeaderID)
	require.Equal(t, httpapi.StorePostgreSQL, st.Store)
	require.Equal(t, []string{"node-a", "node-b"}, st.Nodes)
	require.True(t, st.Ready && st.ClusterReady && st.Term > 0 && st.Term == st.Token)

	leader := await(t, urlB+"/cluster/leader", func(_ int, l httpapi.Leader) bool { return l.AcquiredAt != nil })
	require.Equal(t, "http://a.example:1", leader.APIURL)
	require.NotEmpty(t, leader.Hostname)
	require.NotNil(t, leader.ExpiresAt)
	nodes := await(t, urlA+"/cluster/nodes", func(_ int, n httpapi.Nodes) bool {
		return len(n.Nodes) == 2 && n.Nodes[1].State == cluster.MemberCandidate
	})
	require.Equal(t, cluster.MemberLeader, nodes.Nodes[0].State)
	require.Equal(t, "https://b.example", nodes.Nodes[1].APIURL)
	require.Equal(t, "healthy", nodes.Nodes[0].Health)
	code, health := get[httpapi.Health](t, urlA+"/cluster/health")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "healthy", health.Status)
	require.True(t, health.Clustering)
	for path, want := range map[string]int{urlA + "/livez": 200, urlB + "/readyz": 200, urlB + "/readyz/reads": 200,
		urlB + "/readyz/writes": 200, urlA + "/leaderz": 200, urlB + "/leaderz": 503} {
		code, _ := get[map[string]any](t, path)
		require.Equal(t, want, code, path)
	}

	_, err := lockpg.New(a.session).Acquire(patient(t), "invoice/42")
	require.NoError(t, err)
	locks := await(t, urlB+"/cluster/locks", func(_ int, l httpapi.Locks) bool { return len(l.Locks) == 1 })
	require.Equal(t, "invoice/42", locks.Locks[0].Name)
	require.Equal(t, "node-a", locks.Locks[0].Holders[0].Owner)
	_, elections := get[httpapi.Elections](t, urlB+"/cluster/elections")
	require.Equal(t, "leader", elections.Elections[0].Name)
	require.Equal(t, "node-a", elections.Elections[0].LeaderID)
	require.Len(t, elections.Elections[0].Candidates, 2)

	for _, page := range []string{"figures", "effects", "processors/all", "objects", "shards"} {
		code, p := get[problem](t, urlA+"/cluster/"+page)
		require.Equal(t, http.StatusNotFound, code, page)
		require.NotEmpty(t, p.Detail, page)
	}
	r, err := http.Get(urlA + "/metrics") //nolint:noctx // a test
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode)
	metrics := new(strings.Builder)
	_, err = bufio.NewReader(r.Body).WriteTo(metrics)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Contains(t, metrics.String(), "\ngoverse_is_leader 1\n")
	require.Contains(t, metrics.String(), "\ngoverse_cluster_size 2\n")

	post := func(path string) (int, problem) {
		r, err := http.NewRequestWithContext(patient(t), http.MethodPost, urlA+"/cluster/admin/"+path,
			strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer a-secret-of-sixteen")
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { require.NoError(t, answer.Body.Close()) }()
		var body problem
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
		return answer.StatusCode, body
	}
	code, refused := post("resign")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, refused.Type, "#not-shown")

	events := await(t, urlB+"/cluster/events?types=node_joined,leader_elected", func(_ int, e httpapi.Events) bool {
		return len(e.Events) == 3
	})
	require.Equal(t, httpapi.EventsOfLog, events.Source)
	require.Equal(t, event.NodeJoined, events.Events[0].Type)

	require.NoError(t, a.Leave(patient(t)))
	await(t, urlB+"/leaderz", func(code int, _ map[string]any) bool { return code == 200 })
	code, p := get[problem](t, urlA+"/cluster/nodes")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, p.Type, "#not-running")
	code, _ = get[problem](t, urlA+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
}

// Events and pages are streamed as they change.
func TestStreams(t *testing.T) {
	schema, meter := newSchema(t), pace.StartMeter(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	url := serve(t, a)
	read := func(path string) (lines chan string, stop func()) {
		ctx, cancel := context.WithCancel(patient(t))
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		lines = make(chan string, 1000)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer close(lines)
			for s := bufio.NewScanner(answer.Body); s.Scan(); {
				lines <- s.Text()
			}
		}()
		return lines, func() { cancel(); <-ended; _ = answer.Body.Close() }
	}
	next := func(lines chan string, part string) {
		t.Helper()
		for line := range lines {
			if strings.Contains(line, part) {
				return
			}
		}
		t.Fatalf("the stream has ended without %q", part)
	}
	events, stop := read("/cluster/events/stream")
	defer stop()
	pages, stopPages := read("/cluster/stream?page=/cluster/nodes&page=/cluster/leader")
	defer stopPages()
	next(events, "event: beat")
	next(pages, `"address":"a"`)
	began := time.Now()
	require.NoError(t, a.Events().Record(patient(t), "app_done", map[string]int{"n": 1}))
	next(events, "event: app_done")
	require.Less(t, time.Since(began), meter.Scale(2*time.Second))
	b := join(t, shared.URL(), schema, "b", deadline, pgnode.Config{})
	next(pages, `"address":"b"`)
	next(events, "node_joined")
	require.NoError(t, b.Leave(patient(t)))
	next(events, "node_left")
}

// Requests that only the leader may answer are forwarded to its HTTPAddress.
func TestLeaderOnly(t *testing.T) {
	schema := newSchema(t)
	var urls []string
	var all []*process
	for _, name := range []string{"a", "b"} {
		mux := http.NewServeMux()
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		p := join(t, shared.URL(), schema, name, deadline, pgnode.Config{HTTPAddress: s.URL})
		mux.Handle("/", leaderonly.Handler(leaderonly.NamedElection(p.Election(), p.ID(), p.URLOf),
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`"` + name + `"`)) }),
			leaderonly.Options{Elsewhere: leaderonly.Forward, Applies: func(*http.Request) bool { return true }}))
		urls, all = append(urls, s.URL), append(all, p)
		awaitLeader(t, "a", len(urls), all...)
	}
	await(t, urls[1], func(code int, by string) bool { return code == http.StatusOK && by == "a" })
	eventually(t, "b queues", func() bool { return len(all[0].Status().Queue) == 2 })
	require.NoError(t, all[0].Election().Resign(patient(t)))
	await(t, urls[0], func(code int, by string) bool { return code == http.StatusOK && by == "b" })
}

// An operator's request over HTTP is in the event log, with the node that carried it out and the caller.
func TestRequestsOverHTTPAreRecorded(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "node-a", deadline, pgnode.Config{})
	awaitLeader(t, "node-a", 1, a)
	checkpoints, err := processorpg.New(processorpg.Config{DB: newPool(t, shared.URL()), Table: "recorded_checkpoints"})
	require.NoError(t, err)
	require.NoError(t, checkpoints.CreateTables(patient(t)))
	_, err = checkpoints.Claim(patient(t), "views", 1)
	require.NoError(t, err)
	s := httptest.NewServer(httpapi.New(a, httpapi.Options{Checkpoints: checkpoints, Admin: &httpapi.Admin{
		Authorize: httpapi.BearerToken("ops", "a-secret-of-sixteen")}}))
	t.Cleanup(s.Close)
	r, err := http.NewRequestWithContext(patient(t), http.MethodPost, s.URL+"/cluster/admin/processors/views/rewind",
		strings.NewReader(`{"to": "7/1"}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer a-secret-of-sixteen")
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Equal(t, http.StatusOK, got.StatusCode)
	seen := await(t, s.URL+"/cluster/events?types="+string(event.ProcessorRewound),
		func(_ int, e httpapi.Events) bool { return len(e.Events) == 1 })
	e := seen.Events[0]
	require.Equal(t, []string{"views", "token ops", "7/1", "node-a", "node-a"},
		[]string{e.Processor, e.By, e.Position, e.Node, e.RecordedBy})

	// A failure is PostgreSQL's.
	_, err = newPool(t, shared.URL()).Exec(patient(t), "DROP TABLE recorded_checkpoints CASCADE")
	require.NoError(t, err)
	for method, path := range map[string]string{http.MethodPost: "/cluster/admin/processors/views/rewind",
		http.MethodGet: "/cluster/processors/views/parked"} {
		r, err := http.NewRequestWithContext(patient(t), method, s.URL+path, strings.NewReader(`{"to": "7/1"}`))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer a-secret-of-sixteen")
		r.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
		require.Contains(t, string(body), "PostgreSQL did not do", path)
	}
}
