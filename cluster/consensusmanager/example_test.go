package consensusmanager_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

// A node names the leader, the members, and the owner of a key. A program can keep the view from before the node starts
// until after it has stopped.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{})) // a program uses an etcd that runs
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{Client: etcd.Client(), EtcdPrefix: "/example",
		Sharding: cluster.Sharding{Shards: 4}}, n)
	if err != nil {
		log.Fatal(err)
	}

	manager := c.GetConsensusManager()
	fmt.Println("before Start it leads:", manager.IsLeader())
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	leader, err := manager.WaitForLeader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, known := manager.Member(leader.Address)
	fmt.Println("it leads:", manager.IsLeader(), "and is a member:", known)

	owners, err := manager.WatchOwner(ctx, "customer/42")
	if err != nil {
		log.Fatal(err)
	}
	for owner := range owners { // each change, from now on
		if owner.Address != "" {
			fmt.Println("it owns the key:", owner.Address == n.AdvertiseAddress())
			break
		}
	}

	if err := c.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = manager.WaitForLeader(ctx)
	fmt.Println("after Stop:", err)
	// Output:
	// before Start it leads: false
	// it leads: true and is a member: true
	// it owns the key: true
	// after Stop: the node has stopped, or is stopping
}
