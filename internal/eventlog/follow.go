package eventlog

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Follow calls each with every event that is recorded after the revision, in the order of the log, until ctx ends or
// each fails; it returns each's error, or nil. When etcd is away it goes on where it was; what was pruned meanwhile
// is missing. Events that were recorded in one transaction come one after the other, all but the last with More.
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

// streams is how many watches this process has opened.
var streams atomic.Int64

// follow reads what was recorded after a revision, which it moves on, and then watches, until that fails. It calls
// works when the watch is open.
func follow(ctx context.Context, client *clientv3.Client, keys state.Keys, after *int64,
	each func(event.Event) error, works func()) error {
	events, _, revision, err := List(ctx, client, keys, Query{})
	if err != nil {
		return err
	}
	if revision < *after {
		*after = 0 // etcd was restored or replaced
	}
	slices.SortStableFunc(events, bySeq)
	events = slices.DeleteFunc(events, func(e event.Event) bool { return e.Seq <= *after })
	if err := inTurn(events, each); err != nil {
		return err
	}
	*after = revision
	// Each watch has a stream of its own. etcd asks whether one is allowed with the token that its stream was opened with:
	// on an older one that may be valid no more, for as long as another watch keeps it open.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(
		metadata.AppendToOutgoingContext(ctx, "goverse-events", strconv.FormatInt(streams.Add(1), 10))))
	defer cancel()
	for resp := range client.Watch(ctx, keys.Events(), clientv3.WithPrefix(), clientv3.WithRev(revision+1),
		clientv3.WithFilterDelete(), clientv3.WithCreatedNotify()) {
		if err := resp.Err(); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
		if resp.Created {
			works()
			continue // its revision is etcd's, and what has been until then may be still to come
		}
		events := recorded(keys, resp.Events)
		if err := inTurn(events, each); err != nil {
			return err
		}
		for _, e := range events {
			*after = max(*after, e.Seq)
		}
		if len(resp.Events) == 0 { // else there may be more of what has been
			*after = max(*after, resp.Header.Revision)
		}
	}
	return context.Cause(ctx)
}

// inTurn calls each with events that are in the order of their Seq, of each Seq all, until each fails.
func inTurn(events []event.Event, each func(event.Event) error) error {
	for i, e := range events {
		e.More = i+1 < len(events) && events[i+1].Seq == e.Seq
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// recorded are the events that a response of the watch reports. A transaction is always in one response: etcd divides
// between revisions, and its client puts the fragments of a large response together.
func recorded(keys state.Keys, changes []*clientv3.Event) (events []event.Event) {
	for _, change := range changes {
		if change.Type != mvccpb.PUT || !change.IsCreate() {
			continue
		}
		e, err := decode(keys, string(change.Kv.Key), change.Kv.Value, change.Kv.CreateRevision)
		if err == nil { // else a foreign value: List counts them
			events = append(events, e)
		}
	}
	return events
}
