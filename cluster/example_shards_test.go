package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

// Each key belongs to a shard, and each shard is owned by one node at a time. Work on a key runs on the node that
// serves its shard.
func ExampleCluster_Shards() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.Config{}) // normally elsewhere, see Example
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()

	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{Client: etcd.Client(), EtcdPrefix: "/example-shards",
		Sharding: cluster.Sharding{
			Shards: 4, // the default is 8192
			OnAcquire: func(ctx context.Context, shard int, epoch int64) {
				// Load the shard's data here. The node serves the shard when this returns.
			},
			OnRelease: func(ctx context.Context, shard int) {
				// Save the shard's data here. The next owner begins when this returns.
			},
		}}, n)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}

	shards := c.Shards()
	err = shards.Hold(ctx, "customer/42", func(ctx context.Context, epoch int64) error {
		// Runs as soon as the shard is here, for as long as needed. ctx ends when the shard is to be handed over.
		// A store that refuses a smaller epoch than it has seen refuses a former owner.
		fmt.Println("held:", epoch > 0)
		return nil
	})
	fmt.Println("done:", err)

	err = shards.Serve(ctx, "customer/42", func(ctx context.Context, epoch int64) error {
		// A call does not wait for the shard, and may finish before the shard is handed over.
		fmt.Println("served:", epoch > 0)
		return nil
	})
	var other *shard.NotOwnerError
	if errors.As(err, &other) {
		fmt.Println("send it to", other.Owner)
	}
	fmt.Println("done:", err)

	owner, ok := shards.Owner("customer/42")
	fmt.Println("it is me:", ok, owner.Address == n.AdvertiseAddress())

	fmt.Println("stopped:", c.Stop(ctx))
	// Output:
	// held: true
	// done: <nil>
	// served: true
	// done: <nil>
	// it is me: true true
	// stopped: <nil>
}
