//go:build unix

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A leader that has lost its place writes nothing, although the write had begun in its term.
func TestWriteInATermThatIsOver(t *testing.T) { inBothWorlds(t, testWriteInATermThatIsOver) }

func testWriteInATermThatIsOver(t *testing.T, w world) {
	ctx := etcdtest.Context(t)
	cfg, err := parse(slices.Concat(w.flags, []string{"-http", "127.0.0.1:1"})) // nothing listens there
	require.NoError(t, err)
	cfg.listen = "127.0.0.1:0"
	join := joinCluster
	if cfg.postgres != "" {
		join = openSession
	}
	c, err := join(ctx, cfg, hclog.NewNullLogger())
	require.NoError(t, err)
	require.NoError(t, c.start(ctx))
	defer func() {
		require.NoError(t, c.handOver(context.WithoutCancel(ctx)))
		require.NoError(t, c.close(context.WithoutCancel(ctx)))
	}()
	require.NoError(t, c.leads.Await(ctx, func() bool { return c.leads.Leader().Leads }))

	api := &configs{store: c.store, node: c.name}
	put := func(h http.Handler) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, "PUT", "/configs/a", strings.NewReader(`{}`))
		answered := httptest.NewRecorder()
		leaderonly.Handler(c.leads, h, leaderonly.Options{}).ServeHTTP(answered, r)
		return answered
	}
	late := put(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.depose(t)
		api.routes().ServeHTTP(rw, r)
	}))
	// 504 if the context of the term had ended before the store answered.
	require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}, late.Code, late.Body)
	document, err := c.store.get(ctx, "a")
	require.NoError(t, err)
	require.Nil(t, document)

	require.Eventually(t, func() bool { return put(api.routes()).Code == http.StatusOK }, time.Minute, time.Millisecond)
	document, err = c.store.get(ctx, "a")
	require.NoError(t, err)
	require.JSONEq(t, `{}`, string(document))
}
