package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/clustertest"

	"github.com/goverse/goverse/examples/tutorial/stockpb"
)

// The stock survives the node that had it, and a repeated call takes effect once.
func TestStockSurvivesItsNode(t *testing.T) {
	store := &state.Memory{} // in place of PostgreSQL
	c := clustertest.New(t, 3, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards = 64 // fewer than 8192 make a faster test
	}), clustertest.WithSetup(func(_ int, c *cluster.Cluster) { registerItems(c, store) }))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	at := func(key int) stockpb.ItemClient {
		return stockpb.NewItemClient(c.Node(0).Cluster().Objects().At(fmt.Sprint("article ", key)))
	}

	const articles = 20
	for key := range articles {
		once := state.WithRequestID(ctx, fmt.Sprint("delivery ", key))
		for range 2 { // the second call is a repetition
			reply, err := at(key).Add(once, &stockpb.AddRequest{Units: 10})
			require.NoError(t, err)
			require.EqualValues(t, 10, reply.GetUnits())
		}
	}
	require.NoError(t, c.Node(2).Cluster().Stop(ctx))
	for key := range articles {
		reply, err := at(key).Get(ctx, &stockpb.GetRequest{})
		require.NoError(t, err)
		require.EqualValues(t, 10, reply.GetUnits())
		_, err = at(key).Add(state.WithRequestID(ctx, fmt.Sprint("order ", key)), &stockpb.AddRequest{Units: -11})
		require.Equal(t, codes.FailedPrecondition, status.Code(err))
	}
}
