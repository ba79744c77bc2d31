package callproc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/probepb"
)

// StartGRPCCaller starts a gRPC client of a server. With a [Load] that has keys, it calls objects through any
// node.
func StartGRPCCaller(address string) (*Caller, error) { return startCaller(callGRPCArg, address) }

func callGRPC(ctx context.Context, args []string) error {
	conn, err := grpc.NewClient(args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	client := probepb.NewProbeClient(conn)
	c := probing(func(ctx context.Context, l *Load, i int) (probepb.ProbeClient, context.Context) {
		if len(l.Keys) > 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, l.Keys[i])
		}
		return client, ctx
	})
	return errors.Join(control(ctx, &service{caller: c}, ""), conn.Close())
}

// StartObjectsCaller starts the second node of a cluster of two. It calls objects of the node at owner. The
// caller's Address is the node's own.
func StartObjectsCaller(etcd, owner string) (*Caller, error) {
	return startCaller(callObjectsArg, etcd, owner)
}

func callObjects(ctx context.Context, args []string) error {
	c, err := StartNode(ctx, two(args[0]))
	if err != nil {
		return err
	}
	s := &service{
		caller: probing(func(ctx context.Context, l *Load, i int) (probepb.ProbeClient, context.Context) {
			return probepb.NewProbeClient(c.Objects().At(l.Keys[i])), ctx
		}),
		keys: func(n int) ([]string, error) { return keysOf(ctx, c, args[1], n) },
	}
	return errors.Join(control(ctx, s, c.Status().NodeID), StopNode(c))
}

// keysOf returns n keys of objects that the map assigns to owner. It calls each object to check that it is
// there.
func keysOf(ctx context.Context, c *cluster.Cluster, owner string, n int) (keys []string, err error) {
	if err := awaitMap(ctx, c); err != nil {
		return nil, err
	}
	for i := 0; len(keys) < n && ctx.Err() == nil; i++ {
		key := fmt.Sprintf("object %d", i)
		if o, _ := c.Shards().Owner(key); o.Address != owner {
			continue
		}
		reply, err := probepb.NewProbeClient(c.Objects().At(key)).Do(ctx, &probepb.DoRequest{})
		if err != nil {
			return nil, err
		}
		if at := reply.GetSaid(); at != owner {
			return nil, fmt.Errorf("%s is at %s, and the map says %s", key, at, owner)
		}
		keys = append(keys, key)
	}
	return keys, ctx.Err()
}

// awaitMap waits until the shards have owners.
func awaitMap(ctx context.Context, c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	owners, err := c.Shards().WatchOwner(ctx, "any")
	if err != nil {
		return err
	}
	for o := range owners {
		if o.Address != "" {
			return nil
		}
	}
	return fmt.Errorf("wait for a map of the shards: %w", context.Cause(ctx))
}

// addresses splits the Said of a caller into its address for requests and its node's address, "" if it is no
// node.
func addresses(said string) (own, node string) {
	own, node, _ = strings.Cut(said, " ")
	return own, node
}
