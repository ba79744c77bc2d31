package httpapi_test

import (
	"context"
	"log"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
)

// A program's own routes beside the node's status, one of them restricted to the leader, and the node's metrics
// in the program's own registry.
func Example() {
	serve := func(ctx context.Context, c *cluster.Cluster, plan http.Handler) error {
		prometheus.MustRegister(httpapi.NewCollector(c, httpapi.Options{Version: "v1.2.3"}))
		mux := http.NewServeMux()
		mux.Handle("/", httpapi.New(c, httpapi.Options{Version: "v1.2.3"})) // /readyz, /cluster/status, ...
		mux.Handle("/plan", leaderonly.Handler(leaderonly.Cluster(c), plan,
			leaderonly.Options{Elsewhere: leaderonly.Redirect}))
		l, err := net.Listen("tcp", "localhost:8080")
		if err != nil {
			return err
		}
		server := httpapi.Serve(l, mux, nil)
		log.Print("status: http://", server.Address(), "/cluster/status")
		<-ctx.Done()
		return server.Stop(context.Background())
	}
	_ = serve
}

// The node's pages below a prefix of the program's own mux, with admin calls for holders of the token.
func Example_mounted() {
	serve := func(c *cluster.Cluster, mux *http.ServeMux, token string) {
		api := httpapi.New(c, httpapi.Options{Admin: &httpapi.Admin{Authorize: httpapi.BearerToken("ops", token)}})
		mux.Handle("/internal/node/", http.StripPrefix("/internal/node", api)) // /internal/node/cluster/status, ...
	}
	_ = serve
}
