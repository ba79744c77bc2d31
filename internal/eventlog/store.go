package eventlog

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

// maxBatch limits the events in one transaction: etcd allows 128 operations, and each event takes two.
const maxBatch = 32

// maxEventSize limits the size of an event that is read, in bytes.
const maxEventSize = 64 << 10

// maxReasonSize limits a recorded reason, in bytes. An event with such a reason stays below maxEventSize even if all of
// it has to be escaped.
const maxReasonSize = 4 << 10

// CutReason shortens a reason that a fault may have made too long to be read back.
func CutReason(reason string) string {
	if len(reason) <= maxReasonSize {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReasonSize], "") + "..."
}

// recordEvents writes events. It skips an event if there is one with its id.
func recordEvents(ctx context.Context, kv clientv3.KV, keys state.Keys, events []event.Event) error {
	ops := make([]clientv3.Op, len(events))
	for i, e := range events {
		op, err := createEvent(keys, e)
		if err != nil {
			return err
		}
		ops[i] = op
	}
	_, err := kv.Txn(ctx).Then(ops...).Commit()
	return err
}

// createEvent returns the operation that writes an event if there is none with its id.
func createEvent(keys state.Keys, e event.Event) (clientv3.Op, error) {
	e.Seq, e.Reason = 0, CutReason(e.Reason) // Seq is etcd's revision
	value, err := format.Encode(e, nil)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("encode the event %s: %w", e.ID, err)
	}
	key := keys.Event(e.ID)
	return clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, string(value))}, nil), nil
}

// pruneEvents deletes the oldest events with a key below prefix until no more than most remain, none of them with a
// time before horizon. Unreadable values are deleted when they are among the oldest beyond most.
func pruneEvents(ctx context.Context, kv clientv3.KV, keys state.Keys, prefix string, most int,
	horizon time.Time) error {
	for {
		resp, err := kv.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithLimit(maxBatch),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return err
		}
		excess := int(resp.Count) - most
		var ops []clientv3.Op
		for i, pair := range resp.Kvs {
			e, err := decodeEvent(keys, string(pair.Key), pair.Value, pair.CreateRevision)
			if i < excess || err == nil && e.Time.Before(horizon) {
				ops = append(ops, clientv3.OpDelete(string(pair.Key)))
			}
		}
		if len(ops) == 0 {
			return nil
		}
		if _, err := kv.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
		if len(ops) < len(resp.Kvs) {
			return nil
		}
	}
}

// decodeEvent parses an event as it is stored in etcd.
func decodeEvent(keys state.Keys, key string, value []byte, seq int64) (event.Event, error) {
	id, ok := keys.EventID(key)
	if !ok {
		return event.Event{}, fmt.Errorf("%w: %q is no event's key", state.ErrBadRecord, key)
	}
	if len(value) > maxEventSize {
		return event.Event{}, fmt.Errorf("%w: event %q has %d bytes", state.ErrBadRecord, id, len(value))
	}
	var e event.Event
	if err := format.DecodeKnown("the event", value, &e); err != nil {
		return event.Event{}, fmt.Errorf("%w: event %q: %w", state.ErrBadRecord, id, err)
	}
	if !validType(e.Type) {
		return event.Event{}, fmt.Errorf("%w: event %q has no type but %q", state.ErrBadRecord, id, e.Type)
	}
	e.ID, e.Seq = id, seq
	return e, nil
}

// Listing holds events that List has read.
type Listing struct {
	Events  []event.Event // oldest first
	More    bool          // the query's limit has left out older events
	Skipped int           // number of values in the log that are not events
	// Revision is the revision at which the log was read. [Follow] can continue after it.
	Revision int64
}

// List reads the log. It blocks for one request to etcd.
func List(ctx context.Context, kv clientv3.KV, keys state.Keys, q event.Query) (Listing, error) {
	least := min(q.After, math.MaxInt64-1) + 1
	resp, err := kv.Get(ctx, keys.Events(), clientv3.WithPrefix(), clientv3.WithMinCreateRev(least))
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Events: make([]event.Event, 0, len(resp.Kvs)), Revision: resp.Header.Revision}
	for _, pair := range resp.Kvs {
		e, err := decodeEvent(keys, string(pair.Key), pair.Value, pair.CreateRevision)
		switch {
		case err != nil:
			l.Skipped++
		case !e.Time.Before(q.Since) && (len(q.Types) == 0 || slices.Contains(q.Types, e.Type)):
			l.Events = append(l.Events, e)
		}
	}
	slices.SortFunc(l.Events, compareEvents)
	if excess := len(l.Events) - q.Limit; q.Limit > 0 && excess > 0 {
		l.Events, l.More = l.Events[excess:], true
	}
	return l, nil
}

// compareEvents orders events by their times. Events observed by one node at one instant are ordered by etcd's
// revision, and those of one revision, which come from one transaction, by type.
func compareEvents(a, b event.Event) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Revision, b.Revision),
		cmp.Compare(typeRank(a.Type), typeRank(b.Type)),
		cmp.Compare(a.Seq, b.Seq))
}

func byRevision(a, b event.Event) int { return cmp.Compare(a.Revision, b.Revision) }

// bySeq orders events as they were recorded.
func bySeq(a, b event.Event) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(typeRank(a.Type), typeRank(b.Type)))
}

// typeRank returns the position of a type; unknown types come last.
func typeRank(t event.Type) int {
	if i := slices.Index(eventTypes, t); i >= 0 {
		return i
	}
	return len(eventTypes)
}

var eventTypes = event.Types()
