//go:build unix

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// TestMain runs the program itself in processes started by package trial.
func TestMain(m *testing.M) { trial.Main(m, main) }

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "",
		"-elsewhere forward":     "",
		"-elsewhere nowhere":     "there are refuse, redirect, forward",
		"-remember 1s":           "a minute or more",
		"serve":                  "too much",
		"-help":                  flag.ErrHelp.Error(),
		"-remember 2h -http :80": "",
	} {
		_, err := parse(strings.Fields(line))
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

// copyOf is one copy of the program.
type copyOf struct {
	*fault.Process
	node, url string
}

func start(t *testing.T, etcd string, args ...string) *copyOf {
	t.Helper()
	node, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	web, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	c := &copyOf{node: node, url: "http://" + web}
	c.Process = trial.Program(t, append([]string{"-etcd", etcd, "-listen", node, "-http", web}, args...)...)
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
func TestController(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	leader := start(t, etcd.Endpoint())
	follower, forwards := start(t, etcd.Endpoint()), start(t, etcd.Endpoint(), "-elsewhere", "forward")

	code, header, text := send(ctx, "PUT", follower.url+"/configs/a", "1", `{"n": 1}`)
	require.Equal(t, http.StatusServiceUnavailable, code, text)
	require.Equal(t, leader.url, header.Get("Goverse-Leader"))
	code, _, _ = send(ctx, "GET", follower.url+"/configs/a", "", "")
	require.Equal(t, http.StatusNotFound, code)

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
		{"PUT", "b", "", `"` + strings.Repeat("x", maxValue) + `"`, http.StatusRequestEntityTooLarge},
	} {
		code, _, text = send(ctx, refused.method, leader.url+"/configs/"+refused.name, refused.id, refused.body)
		require.Equal(t, refused.code, code, text)
	}
	// The lease of the ids is revoked out of band; the next write gets another one.
	got, err := etcd.Client().Get(ctx, "/controller-data/writes/1")
	require.NoError(t, err)
	_, err = etcd.Client().Revoke(ctx, clientv3.LeaseID(got.Kvs[0].Lease))
	require.NoError(t, err)
	code, _, text = send(ctx, "PUT", leader.url+"/configs/a", "4", `{"n": 4}`)
	require.Equal(t, http.StatusOK, code, text)

	code, _, _ = send(ctx, "DELETE", leader.url+"/configs/a", "3", "")
	require.Equal(t, http.StatusOK, code)
	code, _, _ = send(ctx, "GET", follower.url+"/configs/a", "", "")
	require.Equal(t, http.StatusNotFound, code)
}

// A graceful stop of a copy fails no write, neither those that it carries out nor those sent to other copies.
func TestStopInOrder(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	first, second := start(t, etcd.Endpoint(), "-elsewhere", "forward"), start(t, etcd.Endpoint(), "-elsewhere", "forward")
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
