package cluster_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

// A program joins a cluster, works while it leads, and leaves.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// An etcd in this process lets the example run anywhere. To use an etcd elsewhere, leave Client out and set
	// EtcdAddress.
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()

	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{Client: etcd.Client(), EtcdPrefix: "/example",
		LeaderElectionTTL: 10}, n)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}

	leader, err := c.WaitForLeader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("it is me:", leader.Address == n.AdvertiseAddress(), c.GetConsensusManager().IsLeader())

	// Work that only the leader may do. ctx ends with the term. etcd refuses the write if the term is over.
	err = c.Lead(ctx, func(ctx context.Context, term leaderelection.Term) error {
		_, err := term.Txn(ctx).Then(clientv3.OpPut("/example-data/last-run", "now")).Commit()
		return err
	})
	fmt.Println("done:", err)

	fmt.Println("stopped:", c.Stop(ctx))
	// Output:
	// it is me: true true
	// done: <nil>
	// stopped: <nil>
}
