package eventlog

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Follow calls each for every event recorded after the revision after, in the order of the log, until ctx ends
// or each fails. It returns the error of each, or nil when ctx has ended. If etcd is away, Follow later
// continues where it was; events that were pruned meanwhile are missing. Events recorded in one transaction
// follow each other, all but the last with More set.
func Follow(ctx context.Context, client *clientv3.Client, keys state.Keys, after int64,
	each func(event.Event) error) error {
	retry := backoff.Backoff{Policy: retryPolicy}
	for ctx.Err() == nil {
		var ours error                                                        // the error of each
		_ = followOnce(ctx, client, keys, &after, func(e event.Event) error { // errors of etcd may pass
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

// streamCount counts the watches that this process has opened.
var streamCount atomic.Int64

// followOnce reads the events recorded after a revision, which it advances, and then watches until that fails. It
// calls works when the watch is open.
func followOnce(ctx context.Context, client *clientv3.Client, keys state.Keys, after *int64,
	each func(event.Event) error, works func()) error {
	log, err := List(ctx, client, keys, event.Query{After: *after})
	if err == nil && log.Revision < *after { // etcd was restored or replaced
		log, err = List(ctx, client, keys, event.Query{})
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(log.Events, bySeq)
	if err := callInOrder(log.Events, each); err != nil {
		return err
	}
	*after = log.Revision
	// Each watch has a stream of its own. etcd checks whether a watch is allowed with the token that its stream
	// was opened with. Another watch may keep an older stream open although its token is no longer valid.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(
		metadata.AppendToOutgoingContext(ctx, "goverse-events", strconv.FormatInt(streamCount.Add(1), 10))))
	defer cancel()
	for resp := range client.Watch(ctx, keys.Events(), clientv3.WithPrefix(), clientv3.WithRev(log.Revision+1),
		clientv3.WithFilterDelete(), clientv3.WithCreatedNotify()) {
		if err := resp.Err(); err != nil {
			return err
		}
		if resp.Created {
			works()
			continue // its revision is etcd's present one, and earlier events may still arrive
		}
		events := recordedEvents(keys, resp.Events)
		if err := callInOrder(events, each); err != nil {
			return err
		}
		for _, e := range events {
			*after = max(*after, e.Seq)
		}
		if len(resp.Events) == 0 { // otherwise further events up to that revision may follow
			*after = max(*after, resp.Header.Revision)
		}
	}
	return context.Cause(ctx)
}

// callInOrder calls each for the events until each fails. events must be sorted by Seq and contain all events of
// each Seq.
func callInOrder(events []event.Event, each func(event.Event) error) error {
	for i, e := range events {
		e.More = i+1 < len(events) && events[i+1].Seq == e.Seq
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// recordedEvents returns the events in a response of the watch. A transaction is never split over responses: etcd
// splits between revisions, and its client reassembles the fragments of a large response.
func recordedEvents(keys state.Keys, changes []*clientv3.Event) (events []event.Event) {
	for _, change := range changes {
		if change.Type != mvccpb.PUT || !change.IsCreate() {
			continue
		}
		e, err := decodeEvent(keys, string(change.Kv.Key), change.Kv.Value, change.Kv.CreateRevision)
		if err == nil { // otherwise it is a foreign value, which List counts
			events = append(events, e)
		}
	}
	return events
}
