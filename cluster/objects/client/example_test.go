package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/examples/counter/counterpb"
	"github.com/goverse/goverse/node"
)

// getter is a counter that stands at 7.
type getter struct {
	counterpb.UnimplementedCounterServer
}

// Get implements counterpb.CounterServer.
func (getter) Get(context.Context, *counterpb.GetRequest) (*counterpb.GetResponse, error) {
	return &counterpb.GetResponse{Sum: 7}, nil
}

// A program that is no node calls objects on their owners. It needs the address of some nodes, and no etcd.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address, stop := startNode(ctx)
	defer stop()

	c, err := client.Dial(ctx, client.Config{Addresses: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	reply, err := counterpb.NewCounterClient(c.At("alice")).Get(ctx, &counterpb.GetRequest{})
	fmt.Println(reply.GetSum(), err)
	// Output: 7 <nil>
}

// startNode starts a node that hosts counters, with an etcd of its own.
func startNode(ctx context.Context) (address string, stop func()) {
	etcd, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{}))
	if err != nil {
		log.Fatal(err)
	}
	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: etcd.Endpoint(), EtcdPrefix: "/example"}, n)
	if err != nil {
		log.Fatal(err)
	}
	objects.Register(c, counterpb.RegisterCounterServer,
		func(context.Context, *objects.Object) (counterpb.CounterServer, error) { return getter{}, nil })
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	return n.AdvertiseAddress(), func() {
		if err := c.Stop(ctx); err != nil {
			log.Fatal(err)
		}
		_ = etcd.Close()
	}
}
