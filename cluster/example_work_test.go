package cluster_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

// Work for one process at a time: the leader of a named election, the holder of a lock, and an effect that takes
// place once.
func ExampleElections() {
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
	c, err := cluster.NewClusterWithNode(cluster.Config{Client: etcd.Client(), EtcdPrefix: "/example-work"}, n)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}

	outbox, err := c.Elections().Stand("outbox")
	if err != nil {
		log.Fatal(err)
	}
	err = outbox.Lead(ctx, func(ctx context.Context, term leaderelection.Term) error {
		fmt.Println("leads:", outbox.IsLeader(), term.Token() > 0)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	held, err := c.Locks().Acquire(ctx, "invoice/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holds:", held.Valid())
	if err := held.Release(ctx); err != nil {
		log.Fatal(err)
	}

	for range 2 {
		result, err := c.Once(ctx, "mail/42", func(context.Context, int64) ([]byte, error) {
			fmt.Println("sends the mail")
			return []byte("message 7"), nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, sent by this call: %v\n", result.Value, result.Ran)
	}
	fmt.Println("stopped:", c.Stop(ctx))
	// Output:
	// leads: true true
	// holds: true
	// sends the mail
	// message 7, sent by this call: true
	// message 7, sent by this call: false
	// stopped: <nil>
}
