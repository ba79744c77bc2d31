//go:build unix

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// TestMain runs the program itself in processes started by package trial.
func TestMain(m *testing.M) { trial.Main(m, main) }

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"":                                    "",
		"-elsewhere forward":                  "",
		"-elsewhere nowhere":                  "there are refuse, redirect, forward",
		"-remember 1s":                        "a minute or more",
		"serve":                               "too much",
		"-help":                               flag.ErrHelp.Error(),
		"-remember 2h -http :80":              "",
		"-postgres postgres://h/x":            "",
		"-postgres postgres://h/x -listen :1": "no use with -postgres",
	} {
		t.Setenv("DATABASE_URL", "")
		_, err := parse(strings.Fields(line))
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
	t.Setenv("DATABASE_URL", "postgres://secret")
	for line, want := range map[string]string{"": "postgres://secret", "-etcd h:1": "",
		"-postgres postgres://h/x": "postgres://h/x"} {
		cfg, err := parse(strings.Fields(line))
		require.NoError(t, err)
		require.Equal(t, want, cfg.postgres, line)
	}
}

// world is what the copies agree by, and keep their documents in.
type world struct {
	flags  []string                      // of each copy
	listen bool                          // each copy has an address for the others, apart from its HTTP
	forget func(t *testing.T, id string) // what was done under an id
	depose func(t *testing.T)            // deletes the leader's place out of band
}

// inBothWorlds runs a test with etcd and with PostgreSQL alone.
func inBothWorlds(t *testing.T, test func(t *testing.T, w world)) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		etcd := etcdtest.Start(t)
		test(t, world{
			flags:  []string{"-etcd", etcd.Endpoint()},
			listen: true,
			forget: func(t *testing.T, id string) {
				got, err := etcd.Client().Get(t.Context(), "/controller-data/writes/"+id)
				require.NoError(t, err)
				_, err = etcd.Client().Revoke(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease)) // of all ids
				require.NoError(t, err)
			},
			depose: func(t *testing.T) {
				done, err := etcd.Client().Delete(t.Context(), "/controller/leader/", clientv3.WithPrefix())
				require.NoError(t, err)
				require.EqualValues(t, 1, done.Deleted)
			},
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := pgserver.StartForTest(t)
		deleteRow := func(t *testing.T, sql string, args ...any) {
			conn, err := pgx.Connect(t.Context(), db.URL())
			require.NoError(t, err)
			done, err := conn.Exec(t.Context(), sql, args...)
			require.NoError(t, err)
			require.EqualValues(t, 1, done.RowsAffected())
			require.NoError(t, conn.Close(t.Context()))
		}
		test(t, world{
			flags:  []string{"-postgres", db.URL() + "&pool_max_conns=8"}, // of the pool, and not of the session
			forget: func(t *testing.T, id string) { deleteRow(t, "delete from controller_writes where id = $1", id) },
			depose: func(t *testing.T) { deleteRow(t, "delete from goverse.claim") },
		})
	})
}

// copyOf is one copy of the program.
type copyOf struct {
	*fault.Process
	node, url string
}

// start starts a copy, and returns when it and the leader take requests.
func (w world) start(t *testing.T, args ...string) *copyOf {
	t.Helper()
	web, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	c := &copyOf{node: web, url: "http://" + web}
	args = slices.Concat(w.flags, []string{"-http", web}, args)
	if w.listen {
		c.node, err = port.Servers.Draw("127.0.0.1")
		require.NoError(t, err)
		args = append(args, "-listen", c.node)
	}
	c.Process = trial.Program(t, args...)
	require.Eventually(t, func() bool {
		code, _, _ := send(t.Context(), http.MethodGet, c.url+"/readyz/writes", "", "")
		return code == http.StatusOK
	}, 30*time.Second, 10*time.Millisecond)
	return c
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send sends a request. It returns code 0 if there was no answer.
func send(ctx context.Context, method, url, id, body string) (code int, header http.Header, text string) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err.Error()
	}
	if id != "" {
		r.Header.Set(IDHeader, id)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return resp.StatusCode, resp.Header, string(all)
}

// A write takes effect once, however often it is sent. The leader carries it out, whichever copy receives it;
// any copy answers reads.
func TestController(t *testing.T) { inBothWorlds(t, testController) }

func testController(t *testing.T, w world) {
	ctx := etcdtest.Context(t)
	leader := w.start(t)
	follower, forwards := w.start(t), w.start(t, "-elsewhere", "forward")

	code, header, text := send(ctx, "PUT", follower.url+"/configs/a", "1", `{"n": 1}`)
	require.Equal(t, http.StatusServiceUnavailable, code, text)
	require.Equal(t, leader.url, header.Get("Goverse-Leader"))
	code, _, _ = send(ctx, "GET", follower.url+"/configs/a", "", "")
	require.Equal(t, http.StatusNotFound, code)
	var status struct {
		LeaderID string   `json:"leader_id"`
		Nodes    []string `json:"nodes"`
	}
	require.Eventually(t, func() bool {
		_, _, text = send(ctx, "GET", follower.url+"/cluster/status", "", "")
		require.NoError(t, json.Unmarshal([]byte(text), &status))
		return len(status.Nodes) == 3
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, leader.node, status.LeaderID)
	require.ElementsMatch(t, []string{leader.node, follower.node, forwards.node}, status.Nodes)
	for _, page := range []string{"/", "/livez", "/readyz", "/metrics", "/cluster/leader", "/cluster/nodes",
		"/cluster/events", "/cluster/health"} {
		code, _, text = send(ctx, "GET", follower.url+page, "", "")
		require.Equal(t, http.StatusOK, code, "%s: %s", page, text)
	}

	var first, second answer
	code, header, text = send(ctx, "PUT", forwards.url+"/configs/a", "1", `{"n": 1}`)
	require.Equal(t, http.StatusOK, code, text)
	require.NoError(t, json.Unmarshal([]byte(text), &first))
	require.Equal(t, leader.node, first.Node)
	require.Positive(t, first.Token)
	require.Empty(t, header.Get("Idempotent-Replayed"))
	code, header, text = send(ctx, "PUT", leader.url+"/configs/a", "1", `{"n": 1}`)
	require.Equal(t, http.StatusOK, code, text)
	require.NoError(t, json.Unmarshal([]byte(text), &second))
	require.Equal(t, first, second, "the former answer")
	require.Equal(t, "true", header.Get("Idempotent-Replayed"))
	for _, c := range []*copyOf{leader, follower, forwards} {
		_, _, text = send(ctx, "GET", c.url+"/configs/a", "", "")
		require.JSONEq(t, `{"n": 1}`, text)
	}
	for _, refused := range []struct {
		method, name, id, body string
		code                   int
	}{
		{"PUT", "a", "1", `{"n": 2}`, http.StatusUnprocessableEntity},
		{"POST", "a", "2", `{}`, http.StatusConflict},
		{"POST", "b", "", `no JSON`, http.StatusBadRequest},
		{"POST", "b", "", "\"no UTF-8: \xff\"", http.StatusBadRequest},
		{"PUT", "b", "", `"` + strings.Repeat("x", maxValue) + `"`, http.StatusRequestEntityTooLarge},
	} {
		code, _, text = send(ctx, refused.method, leader.url+"/configs/"+refused.name, refused.id, refused.body)
		require.Equal(t, refused.code, code, text)
	}
	w.forget(t, "1") // in etcd the lease of the ids is revoked out of band, and the next write gets another one
	code, _, text = send(ctx, "PUT", leader.url+"/configs/a", "4", `{"n": 4}`)
	require.Equal(t, http.StatusOK, code, text)

	code, _, text = send(ctx, "POST", leader.url+"/configs/%00%FF", "\xfe", `"any name, any id"`)
	require.Equal(t, http.StatusOK, code, text)
	_, _, text = send(ctx, "GET", follower.url+"/configs/%00%FF", "", "")
	require.Equal(t, `"any name, any id"`, strings.TrimSpace(text))
	code, _, _ = send(ctx, "DELETE", leader.url+"/configs/a", "3", "")
	require.Equal(t, http.StatusOK, code)
	code, _, _ = send(ctx, "GET", follower.url+"/configs/a", "", "")
	require.Equal(t, http.StatusNotFound, code)
}

// A write that is sent again under its id after the leader was killed gets its first answer, and takes effect no second
// time. Writes that are sent while the leader dies are carried out once, too.
func TestLeaderIsKilled(t *testing.T) { inBothWorlds(t, testLeaderIsKilled) }

func testLeaderIsKilled(t *testing.T, w world) {
	ctx := etcdtest.Context(t)
	leader := w.start(t, "-elsewhere", "forward")
	others := []*copyOf{w.start(t, "-elsewhere", "forward"), w.start(t, "-elsewhere", "forward")}
	code, _, first := send(ctx, "PUT", leader.url+"/configs/a", "first", `{"n": 1}`)
	require.Equal(t, http.StatusOK, code, first)

	var begun, acknowledged, again, replayed atomic.Int64
	killed := make(chan struct{})
	end := trial.Meanwhile(t, 8, time.Millisecond, func(ctx context.Context) error {
		n := begun.Add(1)
		for attempt := 0; ; attempt++ {
			code, header, text := send(ctx, "POST", others[n%2].url+fmt.Sprint("/configs/n", n), fmt.Sprint(n), `{}`)
			switch {
			case code == http.StatusOK:
				acknowledged.Add(1)
				if header.Get("Idempotent-Replayed") != "" {
					replayed.Add(1)
				}
				return nil
			case code == http.StatusServiceUnavailable, code == http.StatusBadGateway, code == http.StatusGatewayTimeout:
				again.Add(1) // as the README says, under the same id
			default: // 409: it took effect twice
				return fmt.Errorf("write %d, attempt %d: %d %s", n, attempt, code, text)
			}
			select {
			case <-killed: // a failure before that is none of the leader's death
			default:
				return fmt.Errorf("write %d, attempt %d: %d %s", n, attempt, code, text)
			}
		}
	})
	more := func() {
		from := acknowledged.Load()
		require.Eventually(t, func() bool { return acknowledged.Load() > from+50 }, 30*time.Second, 10*time.Millisecond)
	}
	more()
	close(killed)
	_, err := leader.Signal(syscall.SIGKILL)
	require.NoError(t, err)
	<-leader.Done()
	more()
	end()
	require.Equal(t, begun.Load(), acknowledged.Load())
	t.Logf("%d writes, %d attempts were answered by nothing but 502 to 504, %d writes had been carried out by then",
		begun.Load(), again.Load(), replayed.Load())

	var second answer
	code, _, text := send(ctx, "PUT", others[0].url+"/configs/a", "second", `{"n": 2}`)
	require.Equal(t, http.StatusOK, code, text)
	require.NoError(t, json.Unmarshal([]byte(text), &second))
	require.NotEqual(t, leader.node, second.Node)
	for _, c := range others {
		code, header, text := send(ctx, "PUT", c.url+"/configs/a", "first", `{"n": 1}`)
		require.Equal(t, http.StatusOK, code, text)
		require.Equal(t, "true", header.Get("Idempotent-Replayed"))
		require.Equal(t, first, text, "the answer of the leader that was killed")
		_, _, text = send(ctx, "GET", c.url+"/configs/a", "", "")
		require.JSONEq(t, `{"n": 2}`, text)
	}
	trial.Stop(t, others[0].Process, others[1].Process)
}

// A graceful stop of a copy fails no write, neither those that it carries out nor those sent to other copies.
func TestStopInOrder(t *testing.T) { inBothWorlds(t, testStopInOrder) }

func testStopInOrder(t *testing.T, w world) {
	first, second := w.start(t, "-elsewhere", "forward"), w.start(t, "-elsewhere", "forward")
	var written atomic.Int64
	end := trial.Meanwhile(t, 4, 5*time.Millisecond, func(ctx context.Context) error {
		n := written.Add(1)
		code, _, text := send(ctx, "POST", second.url+fmt.Sprint("/configs/", n), fmt.Sprint(n), `{}`)
		if code != http.StatusOK {
			return fmt.Errorf("write %d: %d %s", n, code, text)
		}
		return nil
	})
	more := func() {
		from := written.Load()
		require.Eventually(t, func() bool { return written.Load() > from+50 }, 30*time.Second, 10*time.Millisecond)
	}
	more()
	trial.StopWithin(t, 10*time.Second, first.Process)
	more()
	end()
	trial.StopWithin(t, 10*time.Second, second.Process)
}

// All copies are replaced, one after the other, as Kubernetes does it with deploy/kubernetes/postgres: a new one is
// ready before an old one gets no new requests, and stops. No write fails.
func TestRollOut(t *testing.T) { inBothWorlds(t, testRollOut) }

func testRollOut(t *testing.T, w world) {
	copies := []*copyOf{w.start(t, "-elsewhere", "forward"), w.start(t, "-elsewhere", "forward")}
	var service atomic.Pointer[[]*copyOf] // those that get requests
	use := func() { service.Store(new(slices.Clone(copies))) }
	use()
	var written atomic.Int64
	end := trial.Meanwhile(t, 4, 5*time.Millisecond, func(ctx context.Context) error {
		n, at := written.Add(1), *service.Load()
		url := fmt.Sprint(at[int(n)%len(at)].url, "/configs/", n)
		if code, _, text := send(ctx, "POST", url, fmt.Sprint(n), `{}`); code != http.StatusOK {
			return fmt.Errorf("write %d: %d %s", n, code, text)
		}
		return nil
	})
	more := func() {
		from := written.Load()
		require.Eventually(t, func() bool { return written.Load() > from+50 }, 30*time.Second, 10*time.Millisecond)
	}
	for range copies {
		more()
		copies = append(copies, w.start(t, "-elsewhere", "forward"))
		use()
		more()
		old := copies[0]
		copies = copies[1:]
		use()
		more()
		trial.StopWithin(t, 10*time.Second, old.Process)
	}
	more()
	end()
	trial.Stop(t, copies[0].Process, copies[1].Process)
}
