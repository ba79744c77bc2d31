//go:build unix

package leaderonly_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// copyOnPostgres is a copy of a service without etcd. Its address in the election is its URL.
type copyOnPostgres struct {
	*httptest.Server
	session   *pgsession.Session
	candidate *postgres.Candidate
}

func startOnPostgres(t *testing.T, db *pgserver.Server) *copyOnPostgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	mux := http.NewServeMux()
	c := &copyOnPostgres{Server: httptest.NewServer(mux)}
	t.Cleanup(c.Server.Close)
	var err error
	c.session, err = pgsession.Open(ctx, pgsession.Config{URL: db.URL(), Owner: c.URL, Deadline: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.session.Close(ctx)) })
	c.candidate, err = postgres.New(c.session).Stand("service")
	require.NoError(t, err)
	answer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %d", c.URL, leaderonly.TokenFrom(r.Context()))
	}
	leads := leaderonly.NamedElection(c.candidate, c.URL, func(url string) string { return url })
	mux.Handle("/", leaderonly.Handler(leads, http.HandlerFunc(answer), leaderonly.Options{Elsewhere: leaderonly.Forward}))
	return c
}

// Requests to any copy are answered by the leader, also while the lead changes.
func TestLeadersOfAnElectionInPostgres(t *testing.T) {
	db := pgserver.StartForTest(t)
	a := startOnPostgres(t, db)
	require.Eventually(t, a.candidate.IsLeader, time.Minute, time.Millisecond)
	b := startOnPostgres(t, db)
	require.Eventually(t, func() bool { return len(b.candidate.Queue()) == 2 }, time.Minute, time.Millisecond)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	ask := func(c *copyOnPostgres) (url string, token int64) {
		t.Helper()
		resp, err := client.Post(c.URL, "text/plain", http.NoBody)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
		_, err = fmt.Sscan(string(body), &url, &token)
		require.NoError(t, err)
		return url, token
	}
	url, first := ask(b)
	require.Equal(t, a.URL, url, "passed on")
	require.NoError(t, a.candidate.Resign(t.Context()))
	url, second := ask(a)
	require.Equal(t, b.URL, url)
	require.Greater(t, second, first)
	require.NoError(t, b.session.Close(t.Context()))
	url, third := ask(a)
	require.Equal(t, a.URL, url)
	require.Greater(t, third, second)
}
