package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/logtest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	leaktest.Main(m)
}

// embeddedConfig returns the configuration of a node with its own etcd, on free ports.
func embeddedConfig(t *testing.T) Config {
	t.Helper()
	return Config{
		Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		Cluster:      cluster.Config{LeaderElectionTTL: 2, RequestTimeout: 500 * time.Millisecond, Version: "v1"},
		Etcd:         embedetcd.TestTiming(embedetcd.Config{DataDir: filepath.Join(t.TempDir(), "etcd")}),
		StartTimeout: 20 * time.Second, StopTimeout: 20 * time.Second,
	}
}

// joinConfig returns the configuration of a node that joins the etcd at address.
func joinConfig(t *testing.T, address string) Config {
	t.Helper()
	cfg := embeddedConfig(t)
	cfg.Cluster.EtcdAddress = address
	return cfg
}

// runningDaemon is a daemon under Run.
type runningDaemon struct {
	*Daemon
	stop, cut context.CancelFunc
	result    chan error
}

// startDaemon starts a daemon. It is stopped at the end of the test at the latest.
func startDaemon(t *testing.T, cfg Config) *runningDaemon {
	t.Helper()
	d, err := New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	cutCtx, cut := context.WithCancel(context.Background())
	r := &runningDaemon{Daemon: d, stop: stop, cut: cut, result: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.result <- d.Run(ctx, cutCtx)
	}()
	t.Cleanup(func() {
		stop()
		cut()
		<-done
	})
	return r
}

// startLogged is like run, and also returns the log.
func startLogged(t *testing.T, cfg Config) (*runningDaemon, *logtest.Buffer) {
	t.Helper()
	log := &logtest.Buffer{}
	cfg.Logger = log.Logger().Named("goversed")
	return startDaemon(t, cfg), log
}

// waitStopped waits for the result of Run.
func (r *runningDaemon) waitStopped(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.result:
		return err
	case <-time.After(30 * time.Second):
		require.FailNow(t, "Run did not return")
		return nil
	}
}

// waitReady waits until the node reports that a leader is known.
func (r *runningDaemon) waitReady(t *testing.T) httpapi.Status {
	t.Helper()
	var st httpapi.Status
	require.Eventually(t, func() bool {
		return getJSON(t, r.HTTPAddress(), "/cluster/status", &st) == http.StatusOK && st.ClusterReady
	}, 20*time.Second, 5*time.Millisecond)
	return st
}

var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

// getJSON returns the status code and decodes the JSON into into. It returns 0 if no server answers.
func getJSON(t *testing.T, address, path string, into any) int {
	t.Helper()
	resp, err := httpClient.Get("http://" + address + path)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(into))
	return resp.StatusCode
}
