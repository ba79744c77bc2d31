package dashboard_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/browser"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The sizes that the page supports.
var (
	desk  = browser.View{Width: 1280, Height: 900}
	dark  = browser.View{Width: 1280, Height: 900, Dark: true}
	phone = browser.View{Width: 360, Height: 740}
)

// count is an expression: the page has n such elements.
func count(selector string, n int) string {
	return fmt.Sprintf("document.querySelectorAll(%q).length === %d", selector, n)
}

// do is an expression that performs an action and is true.
func do(what string) string { return "(" + what + ", true)" }

// withToken is an expression that enters a token and submits the form.
func withToken(token string) string {
	return do(fmt.Sprintf(`document.querySelector("#token").value = %q`, token) +
		`, document.querySelector("#token-form").requestSubmit()`)
}

// serve serves a handler and returns its address as an origin.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := httpapi.Serve(l, h, nil)
	t.Cleanup(func() { require.NoError(t, s.Stop(etcdtest.Context(t))) })
	return "http://" + s.Address()
}

// handler returns the handler of a node, with admin calls for holders of the token.
func handler(c *clustertest.Cluster, node int) http.Handler {
	return httpapi.New(c.Node(node).Cluster(), httpapi.Options{Version: "v1.4.0",
		Admin: &httpapi.Admin{Authorize: httpapi.BearerToken("ops", token)}})
}

func withoutAdmin(c *clustertest.Cluster, node int) http.Handler {
	return httpapi.New(c.Node(node).Cluster(), httpapi.Options{})
}

// three returns a cluster of three nodes with shards. Its sessions are long, because the browser may keep the machine
// busy.
func three(t *testing.T, options ...clustertest.Option) *clustertest.Cluster {
	t.Helper()
	options = append([]clustertest.Option{clustertest.WithTTL(10)}, options...)
	c := clustertest.New(t, 3, append(options, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: 512}
	}))...)
	c.WaitLeaderIs(c.Node(0).Address())
	return c
}
