package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/examples/service/countspb"
)

// counts implements the Counts service. The node that owns a key's shard counts that key, so each count is read
// and written in one place. The counts are stored in etcd.
type counts struct {
	countspb.UnimplementedCountsServer
	shards *cluster.Shards
	etcd   *clientv3.Client
	prefix string

	turns [256]sync.Mutex // by shard: serialises the calls of one key
}

// Add implements countspb.CountsServer.
func (s *counts) Add(ctx context.Context, r *countspb.AddRequest) (*countspb.AddResponse, error) {
	if r.GetKey() == "" {
		return nil, status.Error(codes.InvalidArgument, "the key is empty; name what is to be counted")
	}
	var count int64
	err := s.shards.Serve(ctx, r.GetKey(), func(ctx context.Context, epoch int64) (err error) {
		turn := &s.turns[s.shards.Shard(r.GetKey())%len(s.turns)]
		turn.Lock()
		defer turn.Unlock()
		count, err = s.add(ctx, r.GetKey(), r.GetN(), epoch)
		return err
	})
	other, elsewhere := errors.AsType[*shard.NotOwnerError](err)
	switch {
	case err == nil:
		return &countspb.AddResponse{Count: count}, nil
	case elsewhere && other.Owner != "":
		return &countspb.AddResponse{Ask: other.Owner}, nil
	default: // the shard is moving, this node starts or stops, or etcd is unavailable
		return nil, status.Error(codes.Unavailable, err.Error())
	}
}

// add reads the count and writes the new one in a transaction that etcd commits only while this node owns the
// key's shard under that epoch. So no addition is lost, whatever happens between the two.
func (s *counts) add(ctx context.Context, key string, n, epoch int64) (int64, error) {
	at := s.prefix + url.PathEscape(key)
	got, err := s.etcd.Get(ctx, at)
	if err != nil {
		return 0, err
	}
	var count int64
	if len(got.Kvs) > 0 {
		if count, err = strconv.ParseInt(string(got.Kvs[0].Value), 10, 64); err != nil {
			return 0, fmt.Errorf("%s does not hold a count: %w", at, err)
		}
	}
	count += n
	owned := s.shards.Ownership(s.shards.Shard(key), epoch)
	_, err = owned.Txn(ctx).Then(clientv3.OpPut(at, strconv.FormatInt(count, 10))).Commit()
	return count, err
}
