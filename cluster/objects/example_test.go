package objects_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/examples/counter/counterpb"
	"github.com/goverse/goverse/node"
)

// counter is the counter of one key. Its calls run one at a time, so it needs no lock.
type counter struct {
	counterpb.UnimplementedCounterServer
	key string
	sum int64
}

// Add implements counterpb.CounterServer.
func (c *counter) Add(_ context.Context, r *counterpb.AddRequest) (*counterpb.AddResponse, error) {
	c.sum += r.GetAmount()
	fmt.Println(c.key, "is", c.sum)
	return &counterpb.AddResponse{Sum: c.sum}, nil
}

// An ordinary gRPC service, implemented for one key, is called for any key from any node.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: etcd.Endpoint(), EtcdPrefix: "/example"}, n)
	if err != nil {
		log.Fatal(err)
	}
	objects.Register(c, counterpb.RegisterCounterServer, // on every node, before Start
		func(_ context.Context, o *objects.Object) (counterpb.CounterServer, error) {
			return &counter{key: o.Key()}, nil
		})
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"alice", "bob", "alice"} {
		_, err := counterpb.NewCounterClient(c.Objects().At(key)).Add(ctx, &counterpb.AddRequest{Amount: 5})
		if objects.NotStarted(err) {
			fmt.Println("certainly nothing has happened")
		}
	}
	fmt.Println("stopped:", c.Stop(ctx))
	// Output:
	// alice is 5
	// bob is 5
	// alice is 10
	// stopped: <nil>
}
