package main

import (
	"context"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/examples/counter/counterpb"
)

// From here to the end is all that makes the counters; the rest of the program is the same for any service.

// counter is the counter of one key. Its calls run one at a time, so it needs no lock.
type counter struct {
	counterpb.UnimplementedCounterServer
	sum int64
}

// Add implements counterpb.CounterServer.
func (c *counter) Add(_ context.Context, r *counterpb.AddRequest) (*counterpb.AddResponse, error) {
	c.sum += r.GetAmount()
	return &counterpb.AddResponse{Sum: c.sum}, nil
}

// Get implements counterpb.CounterServer.
func (c *counter) Get(context.Context, *counterpb.GetRequest) (*counterpb.GetResponse, error) {
	return &counterpb.GetResponse{Sum: c.sum}, nil
}

// register hosts the counters, one for each key that is called.
func register(c *cluster.Cluster) {
	objects.Register(c, counterpb.RegisterCounterServer,
		func(context.Context, *objects.Object) (counterpb.CounterServer, error) { return &counter{}, nil })
}

// The end.
