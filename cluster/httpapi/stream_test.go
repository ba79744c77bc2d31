package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// received is a server-sent event.
type received struct{ id, name, data string }

// sse reads the events of a stream as they come. The channel closes when the stream ends.
func sse(t *testing.T, address, path string, header http.Header) (events <-chan received, resp *http.Response) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	require.NoError(t, err)
	r.Header = header.Clone()
	c := client(t)
	c.Timeout = 0
	resp, err = c.Do(r)
	require.NoError(t, err)
	out, ended := make(chan received, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(out)
		var e received
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "":
				if e.name != "" {
					out <- e
				}
				e = received{}
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = resp.Body.Close()
	})
	return out, resp
}

// await reads events until one matches.
func await(t *testing.T, events <-chan received, what string, is func(received) bool) received {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e, ok := <-events:
			require.True(t, ok, "the stream ended before: %s", what)
			if is(e) {
				return e
			}
		case <-timeout:
			require.Fail(t, "never received", what)
		}
	}
}

// awaitEnd reads until the stream ends.
func awaitEnd(t *testing.T, events <-chan received) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		case <-timeout:
			require.Fail(t, "the stream goes on")
		}
	}
}

func served(t *testing.T, h http.Handler) *Server {
	t.Helper()
	s := Serve(listen(t), h, nil)
	t.Cleanup(func() { require.NoError(t, s.Stop(etcdtest.Context(t))) })
	return s
}

// When the leader is killed, every stream of pages shows the next one within a second.
func TestPageStream(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3)
	c.WaitLeaderIs(c.Node(0).Address())
	s := served(t, New(c.Node(2).Cluster(), Options{}))
	path := "/cluster/stream?page=/cluster/nodes&page=" + url.QueryEscape("/cluster/leader") + "&page=" +
		url.QueryEscape("/cluster/events?limit=2")
	events, resp := sse(t, s.Address(), path, nil)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	leads := func(address string) func(received) bool {
		return func(e received) bool {
			var push struct {
				Status int
				Body   Leader
			}
			require.NoError(t, json.Unmarshal([]byte(e.data), &push))
			return e.name == "/cluster/leader" && push.Status == http.StatusOK && push.Body.LeaderID == address
		}
	}
	await(t, events, "the present leader", leads(c.Node(0).Address()))
	await(t, events, "the newest events", func(e received) bool {
		return e.name == "/cluster/events?limit=2" && strings.Contains(e.data, `"status":200`)
	})
	killed := time.Now()
	c.Node(0).Kill()
	await(t, events, "the next one", leads(c.Node(1).Address()))
	t.Logf("shown %v after the kill", time.Since(killed).Round(time.Millisecond))
	await(t, events, "who is left", func(e received) bool {
		var push struct{ Body Nodes }
		require.NoError(t, json.Unmarshal([]byte(e.data), &push))
		return e.name == "/cluster/nodes" && len(push.Body.Nodes) == 2
	})

	c.Node(2).Stop()
	await(t, events, "the node has stopped", func(e received) bool {
		return e.name == "/cluster/leader" && strings.Contains(e.data, `"status":503`)
	})
}

func TestPageStreamRefuses(t *testing.T) {
	t.Parallel()
	h := New(follower(), Options{})
	for _, query := range []string{"", "?page=/metrics", "?page=/cluster/nothing", "?page=/cluster/stream",
		"?page=/cluster/events/stream", "?page=/cluster/leader&x=1",
		"?page=" + url.QueryEscape("/cluster/leader?\r\ndata: x"),
		"?page=" + url.QueryEscape("/cluster/locks?limit=5&after=x"),
		"?page=" + url.QueryEscape("/cluster/nodes?limit=\x7f"),
		"?page=/cluster/admin/resign", "?page=%zz", "?" + strings.Repeat("page=/cluster/leader&", maxPages+1)} {
		w := call(h, http.MethodGet, "/cluster/stream"+query)
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	}
	require.Equal(t, http.StatusOK, call(h, http.MethodHead, "/cluster/stream?page=/cluster/leader").Code)
	require.Equal(t, http.StatusMethodNotAllowed, call(h, http.MethodPost, "/cluster/stream?page=/cluster/leader").Code)
}

// Streams have slots of their own, and end at once when the server stops.
func TestStreamsAreBoundedAndEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := Serve(listen(t), New(leader(), Options{MaxStreams: 1, MaxRequests: 1}), nil)
	first, _ := sse(t, s.Address(), "/cluster/stream?page=/cluster/leader", nil)
	await(t, first, "a page", func(received) bool { return true })
	resp, err := client(t).Get("http://" + s.Address() + "/cluster/stream?page=/cluster/leader")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	resp, err = client(t).Get("http://" + s.Address() + "/cluster/status")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "a page is no stream")
	began := time.Now()
	require.NoError(t, s.Stop(etcdtest.Context(t)))
	require.Less(t, time.Since(began), 5*time.Second)
	awaitEnd(t, first)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	// On a busy machine no session may be lost, and that etcd is silent takes a third of the TTL to notice.
	c := clustertest.New(t, 2, clustertest.WithTTL(15), clustertest.WithPatience(time.Minute))
	first, second := c.Node(0), c.Node(1)
	c.WaitLeaderIs(first.Address())
	h := New(second.Cluster(), Options{})
	s := served(t, h)
	var page Events
	elected := func(address string) func() bool {
		return func() bool {
			page = read[Events](t, h, "/cluster/events")
			for _, e := range page.Events {
				if e.Type == event.LeaderElected && e.Node == address {
					return page.Source == EventsOfLog
				}
			}
			return false
		}
	}
	c.Eventually(elected(first.Address()), "it is in the log")
	require.Len(t, read[Events](t, h, "/cluster/events?limit=1").Events, 1)
	require.Empty(t, read[Events](t, h, "/cluster/events?since=2099-01-01T00:00:00Z").Events)
	require.NoError(t, second.Cluster().Events().Record(etcdtest.Context(t), "app_import", map[string]int{"rows": 7}))
	_, err := c.Client().Put(etcdtest.Context(t), "/goverse/events/moon_rose-1", `{"type":"moon_rose","time":"`+
		time.Now().UTC().Format(time.RFC3339Nano)+`"}`)
	require.NoError(t, err)
	c.Eventually(func() bool {
		page = read[Events](t, h, "/cluster/events?types=app_import,moon_rose,nothing")
		return len(page.Events) == 2
	}, "events of these types, the unknown one too")
	require.JSONEq(t, `{"rows":7}`, string(page.Events[0].Data))
	require.Len(t, read[Events](t, h, "/cluster/events?types=app_import,moon_rose&limit=1").Events, 1)
	c.Eventually(elected(first.Address()), "all types again")
	recent := read[Events](t, h, "/cluster/events?since=1h").Events
	require.Subset(t, recent, page.Events, "and perhaps events recorded since")
	for _, query := range []string{"?limit=0", "?limit=x", "?since=yesterday", "?limit=1&limit=2", "?after=x",
		"?since=%zz", "?types=", "?types=" + strings.Repeat("x,", maxTypes)} {
		require.Equal(t, http.StatusBadRequest, call(h, http.MethodGet, "/cluster/events"+query).Code, query)
	}

	newest := page.Events[len(page.Events)-1]
	live, _ := sse(t, s.Address(), "/cluster/events/stream", nil)
	again, _ := sse(t, s.Address(), "/cluster/events/stream", http.Header{"Last-Event-Id": {"0"}})
	await(t, again, "from the beginning", func(e received) bool { return e.id == strconv.FormatInt(newest.Seq, 10) })
	require.NoError(t, first.Cluster().Resign(etcdtest.Context(t)))
	leads := func(e received) bool {
		if e.name == "beat" {
			return false
		}
		var body event.Event
		require.NoError(t, json.Unmarshal([]byte(e.data), &body))
		require.Equal(t, string(body.Type), e.name)
		return body.Type == event.LeaderElected && body.Node == second.Address()
	}
	await(t, live, "the next leader", leads)
	await(t, again, "the next leader", leads)
	for _, last := range []string{"x", "-1"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address()+"/cluster/events/stream", nil)
		require.NoError(t, err)
		r.Header.Set("Last-Event-ID", last)
		resp, err := client(t).Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	}

	second.Faults().CutOff()
	c.Eventually(func() bool {
		page = read[Events](t, h, "/cluster/events")
		return page.Source == EventsOfMemory && len(page.Events) > 0
	}, "what the node saw itself")
	second.Faults().Reconnect()
	second.Stop()
	awaitEnd(t, live)
	require.Equal(t, http.StatusServiceUnavailable, call(h, http.MethodGet, "/cluster/events").Code)
	require.Equal(t, http.StatusNotFound, call(New(follower(), Options{}), http.MethodGet, "/cluster/events").Code)
}

// Events recorded in one transaction have the same Seq. A client that resumes with its last id misses none of
// them, wherever its connection was lost, and gets none twice of a transaction that it received as a whole.
func TestEventStreamGoesOnWithinATransaction(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Events.Off = true }))
	s := served(t, New(c.Node(0).Cluster(), Options{}))
	record := func(ids ...string) {
		var puts []clientv3.Op
		for _, id := range ids {
			puts = append(puts, clientv3.OpPut(nodetest.Keys.Event(id), `{"type":"node_left"}`))
		}
		_, err := c.Client().Txn(etcdtest.Context(t)).Then(puts...).Commit()
		require.NoError(t, err)
	}
	// upTo reads until an event has come. It returns the events, and the Last-Event-ID that a browser would send
	// then.
	upTo := func(stream <-chan received, last, id string) (came []string, _ string) {
		await(t, stream, id, func(e received) bool {
			if e.id != "" {
				last = e.id
			}
			if e.name == "beat" {
				return id == "" && last != ""
			}
			var body event.Event
			require.NoError(t, json.Unmarshal([]byte(e.data), &body))
			came = append(came, body.ID)
			return body.ID == id
		})
		return came, last
	}
	goOn := func(last, id string) (came []string, _ string) {
		stream, _ := sse(t, s.Address(), "/cluster/events/stream", http.Header{"Last-Event-Id": {last}})
		return upTo(stream, last, id)
	}
	record("before")
	first, _ := sse(t, s.Address(), "/cluster/events/stream", nil)
	_, before := upTo(first, "", "")
	record("a", "b")
	came, last := upTo(first, before, "a")
	require.Equal(t, []string{"a"}, came)
	came, _ = goOn(last, "b")
	require.Equal(t, []string{"a", "b"}, came, "a comes twice")
	_, last = upTo(first, last, "b")
	record("c")
	came, _ = goOn(last, "c")
	require.Equal(t, []string{"c"}, came)
}
