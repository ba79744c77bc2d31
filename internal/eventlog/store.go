package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
)

// batch is how many events one transaction records: etcd allows 128 operations, and each is two.
const batch = 32

// maxEvent is how many bytes of an event are read, at the most.
const maxEvent = 64 << 10

// maxReason is the length of a recorded reason, in bytes: an event with one stays below maxEvent, whatever has to be
// escaped in it.
const maxReason = 4 << 10

// cut shortens what a fault may have made long, so that what is recorded can also be read.
func cut(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "..."
}

// record writes events, each unless there is one with its id.
func record(ctx context.Context, kv clientv3.KV, keys state.Keys, events []event.Event) error {
	ops := make([]clientv3.Op, len(events))
	for i, e := range events {
		e.Seq, e.Reason = 0, cut(e.Reason) // Seq is etcd's revision
		value, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode the event %s: %w", e.ID, err)
		}
		key := keys.Event(e.ID)
		ops[i] = clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(key, string(value))}, nil)
	}
	_, err := kv.Txn(ctx).Then(ops...).Commit()
	return err
}

// prune deletes the oldest events, until there are at most most and none was recorded before horizon, by its own
// time. What cannot be read goes with the others when its turn comes.
func prune(ctx context.Context, kv clientv3.KV, keys state.Keys, most int, horizon time.Time) error {
	for {
		resp, err := kv.Get(ctx, keys.Events(), clientv3.WithPrefix(), clientv3.WithLimit(batch),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		if err != nil {
			return err
		}
		excess := int(resp.Count) - most
		var ops []clientv3.Op
		for i, pair := range resp.Kvs {
			e, err := decode(keys, string(pair.Key), pair.Value, pair.CreateRevision)
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

// decode reads an event as it lies in etcd.
func decode(keys state.Keys, key string, value []byte, seq int64) (event.Event, error) {
	id, ok := keys.EventID(key)
	if !ok {
		return event.Event{}, fmt.Errorf("%w: %q is no event's key", state.ErrBadRecord, key)
	}
	if len(value) > maxEvent {
		return event.Event{}, fmt.Errorf("%w: event %q has %d bytes", state.ErrBadRecord, id, len(value))
	}
	var e event.Event
	if err := json.Unmarshal(value, &e); err != nil {
		return event.Event{}, fmt.Errorf("%w: event %q: %w", state.ErrBadRecord, id, err)
	}
	if e.Type == "" || strings.Trim(string(e.Type), "abcdefghijklmnopqrstuvwxyz_") != "" {
		return event.Event{}, fmt.Errorf("%w: event %q has no type but %q", state.ErrBadRecord, id, e.Type)
	}
	e.ID, e.Seq = id, seq
	return e, nil
}

// Query says which events to list. The zero value: all.
type Query struct {
	// Since leaves out what happened before.
	Since time.Time
	// Limit leaves out all but the newest, so many; 0: none.
	Limit int
}

// List reads the log, oldest first. Skipped is how many values were no events. The revision is that of the log as it
// was read: [Follow] goes on after it. It blocks for one request to etcd.
func List(ctx context.Context, kv clientv3.KV, keys state.Keys, q Query) (_ []event.Event, skipped int,
	revision int64, err error) {
	resp, err := kv.Get(ctx, keys.Events(), clientv3.WithPrefix())
	if err != nil {
		return nil, 0, 0, err
	}
	out := make([]event.Event, 0, len(resp.Kvs))
	for _, pair := range resp.Kvs {
		e, err := decode(keys, string(pair.Key), pair.Value, pair.CreateRevision)
		switch {
		case err != nil:
			skipped++
		case !e.Time.Before(q.Since):
			out = append(out, e)
		}
	}
	slices.SortFunc(out, compare)
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return out, skipped, resp.Header.Revision, nil
}

// compare orders events by their times; those that one node saw at one instant by etcd's revisions, and those of one
// revision, which are of one transaction, in the order of their types.
func compare(a, b event.Event) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Revision, b.Revision), cmp.Compare(rank(a.Type), rank(b.Type)),
		cmp.Compare(a.Seq, b.Seq))
}

func byRevision(a, b event.Event) int { return cmp.Compare(a.Revision, b.Revision) }

// bySeq orders events as they were recorded.
func bySeq(a, b event.Event) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(rank(a.Type), rank(b.Type)))
}

// rank is the place of a type; those that are not known come last.
func rank(t event.Type) int {
	if i := slices.Index(types, t); i >= 0 {
		return i
	}
	return len(types)
}

var types = event.Types()
