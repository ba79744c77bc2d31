package eventlog

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Follow calls each with every event that is recorded after the revision, in the order of the log, until ctx ends or
// each fails; it returns each's error, or nil. When etcd is away it goes on where it was; what was pruned meanwhile
// is missing.
func Follow(ctx context.Context, client *clientv3.Client, keys state.Keys, after int64,
	each func(event.Event) error) error {
	retry := backoff.Backoff{Policy: retryPolicy}
	for ctx.Err() == nil {
		var ours error                                                    // of each
		_ = follow(ctx, client, keys, &after, func(e event.Event) error { // what is etcd's may pass
			ours = each(e)
			return ours
		}, retry.Reset)
		if ours != nil {
			return ours
		}
		wait.For(ctx, retry.Next())
	}
	return nil
}

// follow reads what was recorded after a revision, which it moves on, and then watches, until that fails.
func follow(ctx context.Context, client *clientv3.Client, keys state.Keys, after *int64,
	each func(event.Event) error, works func()) error {
	events, _, revision, err := List(ctx, client, keys, Query{})
	if err != nil {
		return err
	}
	works()
	if revision < *after {
		*after = 0 // etcd was restored or replaced
	}
	slices.SortStableFunc(events, bySeq)
	for _, e := range events {
		if e.Seq > *after {
			if err := each(e); err != nil {
				return err
			}
		}
	}
	*after = revision
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range client.Watch(ctx, keys.Events(), clientv3.WithPrefix(), clientv3.WithRev(revision+1),
		clientv3.WithFilterDelete()) {
		if err := resp.Err(); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		for _, change := range resp.Events {
			if change.Type != mvccpb.PUT || !change.IsCreate() {
				continue
			}
			e, err := decode(keys, string(change.Kv.Key), change.Kv.Value, change.Kv.CreateRevision)
			if err != nil {
				continue // a foreign value: List counts them
			}
			if err := each(e); err != nil {
				return err
			}
			*after = max(*after, e.Seq)
		}
		if len(resp.Events) == 0 { // else there may be more of what has been
			*after = max(*after, resp.Header.Revision)
		}
	}
	return context.Cause(ctx)
}
