//go:build unix

package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/test/logtest"
)

// signalSelf sends this process the signal of an operator, because the program under test runs inside it.
func signalSelf(t *testing.T) {
	t.Helper()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
}

// Not parallel, because the signal reaches every running command.
func TestNodeRunsUntilASignal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	var stdout, stderr logtest.Buffer
	code := make(chan int, 1)
	go func() {
		code <- runCommandLine(context.Background(), []string{"node", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
			"--etcd-listen", "127.0.0.1:0", "--data-dir", dir, "--label", "zone=a"},
			envLookup(map[string]string{"GOVERSE_LOG_JSON": "true", "GOVERSE_TTL": "5s"}), &stdout, &stderr)
	}()
	require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "this node is part of the cluster") },
		30*time.Second, 5*time.Millisecond)
	var etcd string
	for line := range strings.Lines(stderr.String()) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry), "each line is JSON: %q", line)
		if address, ok := entry["etcd"].(string); ok {
			etcd = address
		}
	}
	r := runGoversed(t, map[string]string{"GOVERSE_ETCD": etcd}, "nodes", "-o", "json")
	require.Equal(t, cli.ExitOK, r.code, r.stderr)
	var all struct {
		Items []map[string]any `json:"items"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &all))
	nodes := all.Items
	require.Len(t, nodes, 1)
	require.Equal(t, map[string]any{"zone": "a"}, nodes[0]["labels"])
	require.Equal(t, 5.0, nodes[0]["ttl"], "the variable counts")
	require.NotEqual(t, "127.0.0.1:0", nodes[0]["http_address"])

	signalSelf(t)
	require.Equal(t, cli.ExitOK, <-code, stderr.String())
	require.Empty(t, stdout.String())
	require.DirExists(t, dir)
}

func TestNodeWithoutHTTP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
	}{
		"flag":       {nil, []string{"--http", "none"}},
		"empty flag": {nil, []string{"--http="}},
		"variable":   {map[string]string{"GOVERSE_HTTP": "none"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"node", "--listen", "127.0.0.1:0", "--etcd", "127.0.0.1:1", "--start-timeout", "100ms"},
				c.args...)
			r := runGoversed(t, c.env, args...)
			require.Equal(t, cli.ExitFailure, r.code, r.stderr)
			require.Contains(t, r.stderr, "etcd cannot be reached", "it got so far")
			require.NotContains(t, r.stderr, "serving http")
		})
	}
}

func TestNodeThatCannotStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	used := taken.Addr().String()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"gRPC port in use": {[]string{"--listen", used, "--etcd", "127.0.0.1:1"}, "--listen " + used +
			" is in use: stop the process that uses it"},
		"http port in use": {[]string{"--http", used, "--etcd", "127.0.0.1:1"}, "--http " + used +
			" is in use: stop the process that uses it"},
		"etcd port in use": {[]string{"--etcd-listen", used, "--data-dir", t.TempDir()}, "--etcd-listen " + used +
			" is in use: join the etcd that runs there with --etcd " + used},
		"data directory unusable": {[]string{"--etcd-listen", "127.0.0.1:0", "--data-dir", filepath.Join(file, "etcd")},
			"--data-dir"},
		"etcd unreachable": {[]string{"--etcd", "127.0.0.1:1", "--start-timeout", "300ms"},
			"etcd cannot be reached at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"node", "--log-level", "off", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, c.args...)
			requireOneLine(t, runGoversed(t, nil, args...), cli.ExitFailure, c.says)
		})
	}
}

// Without the flag the library's default applies, which depends on the TTL. In the library 0 is that default.
func TestSilenceTimeoutFlag(t *testing.T) {
	for _, tc := range []struct {
		given      bool
		flag, want time.Duration
	}{
		{false, 3500 * time.Millisecond, 0}, {true, 0, -1}, {true, 2 * time.Second, 2 * time.Second},
	} {
		f := nodeFlags{ttl: 5 * time.Second, crashDetection: "on", crash: cluster.CrashDetection{Watchers: 2,
			GracePeriod: time.Second, Confirmations: 3, SilenceTimeout: tc.flag}}
		require.NoError(t, f.checkCrash(tc.given))
		require.Equal(t, tc.want, f.crash.SilenceTimeout, "%v", tc)
	}
}
