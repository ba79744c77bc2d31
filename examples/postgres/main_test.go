//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/test/pgserver"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

const patience = time.Minute

var (
	ready     = regexp.MustCompile(`ready: url=(\S+)`)
	published = regexp.MustCompile(`published: .*body="?\{\\?"n\\?": (\d+)\}`)
)

// start starts a copy, and returns when it is ready.
func start(t *testing.T, db *pgserver.Server) (p *fault.Process, url string) {
	t.Helper()
	p = trial.Program(t, "-postgres", db.URL(), "-http", "127.0.0.1:0", "-every", "10ms")
	require.Eventually(t, func() bool {
		found := ready.FindStringSubmatch(p.Output())
		if found != nil {
			url = found[1]
		}
		return found != nil
	}, patience, 5*time.Millisecond, p.Output())
	return p, url
}

// Orders are taken by the leader, whichever copy gets them, and published once and in order, although copies stop and
// are killed. The job runs in the leader alone.
func TestCopies(t *testing.T) {
	t.Parallel()
	db := pgserver.StartForTest(t)
	a, urlA := start(t, db)
	b, urlB := start(t, db)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	orders := 0
	order := func(url string) {
		t.Helper()
		orders++
		require.Eventually(t, func() bool {
			resp, err := client.Post(url+"/orders", "application/json", strings.NewReader(fmt.Sprintf(`{"n": %d}`, orders)))
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		}, patience, 10*time.Millisecond)
	}
	copies := []*fault.Process{a, b}
	shown := func() (all []string) {
		for _, p := range copies {
			for _, found := range published.FindAllStringSubmatch(p.Output(), -1) {
				all = append(all, found[1])
			}
		}
		return all
	}
	awaitAll := func() {
		t.Helper()
		require.Eventually(t, func() bool { return len(shown()) >= orders }, patience, 5*time.Millisecond)
		for i, n := range shown() {
			require.Equal(t, fmt.Sprint(i+1), n, "once, and in order")
		}
	}
	for range 10 {
		order(urlA)
		order(urlB)
	}
	awaitAll()
	require.Eventually(t, func() bool { return strings.Contains(a.Output(), "report") }, patience, 5*time.Millisecond)
	require.NotContains(t, b.Output(), "report")

	_, err := a.Signal(syscall.SIGTERM)
	require.NoError(t, err)
	order(urlB)
	trial.Succeeds(t, a)
	awaitAll()
	c, urlC := start(t, db)
	copies = append(copies, c)
	_, err = b.Signal(syscall.SIGKILL)
	require.NoError(t, err)
	<-b.Done()
	order(urlC)
	awaitAll()
	require.Eventually(t, func() bool { return strings.Contains(c.Output(), "report") }, patience, 5*time.Millisecond)
	trial.Stop(t, c)

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	var rows, sessions int
	require.NoError(t, conn.QueryRow(ctx, "select (select count(*) from outbox), (select count(*) from goverse.session)").
		Scan(&rows, &sessions))
	require.Equal(t, orders, rows)
	require.Zero(t, sessions)
	require.NoError(t, conn.Close(ctx))
}

// A failure to serve is reported; the end by Shutdown is none.
func TestServe(t *testing.T) {
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return listener
	}
	broken := listen()
	require.NoError(t, broken.Close())
	require.ErrorIs(t, serve(&http.Server{}, broken), net.ErrClosed)
	stopped := &http.Server{}
	require.NoError(t, stopped.Shutdown(t.Context()))
	require.NoError(t, serve(stopped, listen()))
}

func TestBadCommandLine(t *testing.T) {
	p := trial.Program(t)
	code, err := p.Exit(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, code)
	require.Contains(t, p.Output(), "give -postgres")
}
