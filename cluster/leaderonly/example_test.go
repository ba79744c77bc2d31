package leaderonly_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

// The leader answers writes, in its term. Every other node refuses them, and names the leader.
func ExampleHandler() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{})) // a program uses an etcd that runs
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	for i, url := range []string{"http://10.0.0.1:8080", "http://10.0.0.2:8080"} {
		n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0"})
		if err != nil {
			log.Fatal(err)
		}
		c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: etcd.Endpoint(), EtcdPrefix: "/example",
			HTTPAddress: url}, n)
		if err != nil {
			log.Fatal(err)
		}
		if err := c.Start(ctx); err != nil {
			log.Fatal(err)
		}
		defer func() { _ = c.Stop(ctx) }()
		if _, err := c.WaitForLeader(ctx); err != nil {
			log.Fatal(err)
		}

		plan := leaderonly.Handler(leaderonly.Cluster(c), http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				term, ok := leaderonly.TermFrom(r.Context()) // its Txn commits only while this node leads
				fmt.Println("node", i, "writes, in its term:", ok && term.Token() > 0)
			}), leaderonly.Options{})
		w := httptest.NewRecorder()
		plan.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/plan", nil))
		fmt.Printf("%d, leader %q\n", w.Code, w.Header().Get(leaderonly.LeaderHeader))
	}
	// Output:
	// node 0 writes, in its term: true
	// 200, leader ""
	// 503, leader "http://10.0.0.1:8080"
}
