//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/examples/service/countspb"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// TestMain runs the program itself in processes started by package trial.
func TestMain(m *testing.M) { trial.Main(m, main) }

// copyOf is one copy of the service.
type copyOf struct {
	*fault.Process
	grpc, http string
}

func start(t *testing.T, etcd string) *copyOf {
	t.Helper()
	c := &copyOf{grpc: free(t), http: free(t)}
	c.Process = trial.Program(t, "-etcd", etcd, "-listen", c.grpc, "-http", c.http, "-shards", "8", "-every", "50ms")
	return c
}

func free(t *testing.T) string {
	t.Helper()
	address, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	return address
}

// add adds one, following the answers' redirections until it succeeds.
func add(ctx context.Context, conns map[string]countspb.CountsClient, first, key string) error {
	at := first
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		resp, err := conns[at].Add(attempt, &countspb.AddRequest{Key: key, N: 1})
		cancel()
		switch {
		case err == nil && resp.GetAsk() == "":
			return nil
		case err == nil && conns[resp.GetAsk()] != nil:
			at = resp.GetAsk()
		default:
			for at = range conns { // any other, in any order
				break
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Copies join and stop gracefully while all of them are asked to count. Each answered request is counted at
// least once, the leader reports the sum, and the others redirect to the leader.
func TestService(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	ctx := etcdtest.Context(t)
	first, second := start(t, etcd.Endpoint()), start(t, etcd.Endpoint())
	conns := map[string]countspb.CountsClient{}
	for _, c := range []*copyOf{first, second} {
		conn, err := grpc.NewClient(c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		conns[c.grpc] = countspb.NewCountsClient(conn)
	}
	var added atomic.Int64
	end := trial.Meanwhile(t, 4, 5*time.Millisecond, func(ctx context.Context) error {
		err := add(ctx, conns, first.grpc, strings.Repeat("k", int(added.Load()%7)+1))
		if err == nil {
			added.Add(1)
		}
		return err
	})
	require.Eventually(t, func() bool { return added.Load() > 50 }, 30*time.Second, 10*time.Millisecond)
	trial.StopWithin(t, 10*time.Second, first.Process)
	before := added.Load()
	require.Eventually(t, func() bool { return added.Load() > before+50 }, 30*time.Second, 10*time.Millisecond)
	end()
	var said string
	require.Eventually(t, func() bool {
		said = get(ctx, "http://"+second.http+"/report")
		return sum(said) >= added.Load()
	}, 30*time.Second, 10*time.Millisecond, "the report says %q", said)
	third := start(t, etcd.Endpoint())
	require.Eventually(t, func() bool { return get(ctx, "http://"+third.http+"/report") == said }, 30*time.Second,
		10*time.Millisecond,
		"it sends to the leader")
	trial.Stop(t, second.Process, third.Process)
}

func sum(said string) (n int64) {
	for _, c := range strings.TrimSpace(said) {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

// get returns the body of a successful response, otherwise "".
func get(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return ""
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}
