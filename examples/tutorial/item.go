package main

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"

	"github.com/goverse/goverse/examples/tutorial/stockpb"
)

// item is the stock of one article. Its calls run one at a time, so it needs no lock.
type item struct {
	stockpb.UnimplementedItemServer
	state *state.State[*stockpb.Stock]
}

// registerItems hosts the items, whose states are in store. Each change has a request id, so a call may be sent again.
func registerItems(c *cluster.Cluster, store state.Store) {
	objects.Register(c, stockpb.RegisterItemServer,
		func(ctx context.Context, o *objects.Object) (stockpb.ItemServer, error) {
			s, err := state.Load(ctx, store, o, &stockpb.Stock{})
			return &item{state: s}, err
		}, objects.Idempotent())
}

// Add implements stockpb.ItemServer. It stores the new state and the reply together, once for each request id.
func (i *item) Add(ctx context.Context, r *stockpb.AddRequest) (*stockpb.AddResponse, error) {
	id, ok := state.RequestID(ctx)
	if !ok {
		return nil, status.Error(codes.InvalidArgument, "the call needs the header "+state.RequestIDHeader)
	}
	return state.Do(ctx, i.state, id, func(context.Context) (*stockpb.AddResponse, error) {
		left := i.state.Value().GetUnits() + r.GetUnits()
		if left < 0 {
			return nil, status.Error(codes.FailedPrecondition, "not enough in stock")
		}
		i.state.Value().Units = left
		return &stockpb.AddResponse{Units: left}, nil
	})
}

// Get implements stockpb.ItemServer.
func (i *item) Get(context.Context, *stockpb.GetRequest) (*stockpb.GetResponse, error) {
	return &stockpb.GetResponse{Units: i.state.Value().GetUnits()}, nil
}
