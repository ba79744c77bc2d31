package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/examples/counter/counterpb"
)

// From here to the end are the counters of counter.go by hand, on the shards: what objects save a program.

// byHand implements the counters of one node. One lock suffices, because nothing waits under it.
type byHand struct {
	counterpb.UnimplementedCounterServer
	shards *cluster.Shards

	mu    sync.Mutex
	sums  map[int]map[string]int64 // by shard and key
	conns map[string]*grpc.ClientConn
}

// Add implements counterpb.CounterServer.
func (b *byHand) Add(ctx context.Context, r *counterpb.AddRequest) (reply *counterpb.AddResponse, err error) {
	err = b.call(ctx, func(sums map[string]int64, key string) {
		sums[key] += r.GetAmount()
		reply = &counterpb.AddResponse{Sum: sums[key]}
	}, func(ctx context.Context, owner counterpb.CounterClient) (err error) {
		reply, err = owner.Add(ctx, r)
		return err
	})
	return reply, err
}

// Get implements counterpb.CounterServer.
func (b *byHand) Get(ctx context.Context, r *counterpb.GetRequest) (reply *counterpb.GetResponse, err error) {
	err = b.call(ctx, func(sums map[string]int64, key string) {
		reply = &counterpb.GetResponse{Sum: sums[key]}
	}, func(ctx context.Context, owner counterpb.CounterClient) (err error) {
		reply, err = owner.Get(ctx, r)
		return err
	})
	return reply, err
}

// call runs the call here if this node owns the key's shard, otherwise at the owner. It waits for a moving shard.
func (b *byHand) call(ctx context.Context, here func(sums map[string]int64, key string),
	there func(context.Context, counterpb.CounterClient) error) error {
	md, _ := metadata.FromIncomingContext(ctx)
	keys := md.Get("goverse-key")
	if len(keys) != 1 || keys[0] == "" {
		return status.Error(codes.InvalidArgument, "say which counter is meant, in the header goverse-key")
	}
	key, forwarded := keys[0], len(md.Get("forwarded")) > 0
	for {
		err := b.shards.Serve(ctx, key, func(context.Context, int64) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			n := b.shards.Shard(key)
			if b.sums[n] == nil {
				b.sums[n] = map[string]int64{}
			}
			here(b.sums[n], key)
			return nil
		})
		other, elsewhere := errors.AsType[*shard.NotOwnerError](err)
		switch {
		case err == nil:
			return nil
		case !elsewhere:
			return status.Error(codes.Unavailable, err.Error())
		case forwarded: // the node that sent it asks again, so that no call goes round in circles
			return status.Error(codes.Aborted, "the shard is not here")
		case other.Owner != "":
			conn, err := b.conn(other.Owner)
			if err != nil {
				return err
			}
			err = there(metadata.AppendToOutgoingContext(ctx, "goverse-key", key, "forwarded", "1"),
				counterpb.NewCounterClient(conn))
			if status.Code(err) != codes.Aborted {
				return err
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// conn returns the connection to another node.
func (b *byHand) conn(address string) (conn *grpc.ClientConn, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if conn = b.conns[address]; conn == nil {
		conn, err = grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err == nil {
			b.conns[address] = conn
		}
	}
	return conn, err
}

// release implements Sharding.OnRelease.
func (b *byHand) release(_ context.Context, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sums, n)
}

// close closes the connections. The node must have stopped.
func (b *byHand) close() error {
	var errs []error
	for _, conn := range b.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// byHandOn sets sharding up for the counters of a node; register must be called before the node's Start.
func byHandOn(sharding *cluster.Sharding) (b *byHand, register func(c *cluster.Cluster)) {
	b = &byHand{sums: map[int]map[string]int64{}, conns: map[string]*grpc.ClientConn{}}
	sharding.OnRelease = b.release
	return b, func(c *cluster.Cluster) {
		b.shards = c.Shards()
		counterpb.RegisterCounterServer(c.Node().Server(), b)
	}
}

// The end.
