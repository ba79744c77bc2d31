package pgnode_test

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
)

// A service whose copies know each other. POST requests to /orders are answered by the leader, whichever copy gets
// them.
func Example() {
	ctx := context.Background()
	session, err := pgsession.Open(ctx, pgsession.Config{URL: os.Getenv("DATABASE_URL"), Owner: "billing-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	node, err := pgnode.Join(ctx, session, pgnode.Config{HTTPAddress: "billing-1:8080", Version: "1.4"})
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = node.Leave(ctx) }()

	leads := leaderonly.NamedElection(node.Election(), node.ID(), node.URLOf)
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := node.Events().Record(r.Context(), "app_order_taken", nil); err != nil {
			log.Print(err)
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux := http.NewServeMux()
	mux.Handle("/orders", leaderonly.Handler(leads, orders, leaderonly.Options{Elsewhere: leaderonly.Forward}))
	mux.Handle("/", httpapi.New(node, httpapi.Options{})) // the dashboard, /cluster/status, /readyz and the like
	log.Print(http.ListenAndServe(":8080", mux))
}
