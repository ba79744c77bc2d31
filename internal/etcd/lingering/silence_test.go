package lingering

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// removeWith deletes the keys of a:1 and puts an accusation of it by b:1, in one revision.
func (w *world) removeWith(record state.AccusationRecord, markFirst bool) {
	mark := w.put(w.keys.Accusation("a:1", "b:1"), record.Encode(), 2)
	events := []state.Event{mark}
	for _, key := range []string{w.keys.Candidate(1), w.keys.Node("a:1")} {
		events = append(events, state.Event{KV: state.KV{Key: key, ModRevision: w.revision}, Deleted: true})
	}
	if !markFirst {
		slices.Reverse(events)
	}
	w.apply(events...)
}

// A member that was removed for its silence does not linger, in whatever order the events of that revision come. The
// mark of the removal is then a void accusation, which its author withdraws.
func TestRemovedForItsSilence(t *testing.T) {
	for _, markFirst := range []bool{true, false} {
		w := inLaterTerm(t)
		a := w.s.Member("a:1")
		w.removeWith(state.AccusationRecord{Incarnation: a.Incarnation, Removed: true}, markFirst)
		require.Empty(t, w.s.Lingering)
		require.Nil(t, w.s.Member("a:1"))
		w.leads("b:1")
		require.NotNil(t, w.s.RemovalMarkOf(a))
		void := suspicion.VoidAccusations(w.s, "b:1")
		require.Equal(t, w.s.Accusations, void)
		require.Len(t, void, 1)
		require.Empty(t, suspicion.VoidAccusations(w.s, "c:1"), "only its author withdraws it")
		w.revision++
		w.apply(state.Event{KV: state.KV{Key: w.keys.Accusation("a:1", "b:1"), ModRevision: w.revision}, Deleted: true})
		require.Empty(t, w.s.Accusations)
	}
}

// Only the mark with that member's incarnation shows its removal.
func TestAccusationInTheRevisionIsNoMark(t *testing.T) {
	for name, record := range map[string]state.AccusationRecord{
		"no mark":             {Incarnation: 1, Evidence: "refused"},
		"another incarnation": {Incarnation: 3, Removed: true},
	} {
		w := inLaterTerm(t)
		require.EqualValues(t, 1, w.s.Member("a:1").Incarnation)
		w.removeWith(record, true)
		require.Len(t, w.s.Lingering, 1, name)
		w.leads("a:1")
	}
	w := inLaterTerm(t)
	mark := w.put(w.keys.Accusation("b:1", "c:1"), state.AccusationRecord{Incarnation: 1, Removed: true}.Encode(), 3)
	w.apply(mark, state.Event{KV: state.KV{Key: w.keys.Node("a:1"), ModRevision: w.revision}, Deleted: true})
	require.Len(t, w.s.Lingering, 1, "of another member")
}

// The watch was lost, and the range is read anew after a member is gone. The mark of its removal shows why. A plain
// accusation does not: the member's lease may have ended while it stood accused.
func TestRemovedWhileReadingAnew(t *testing.T) {
	w := inLaterTerm(t)
	var left []state.KV
	for _, m := range w.s.Members[1:] {
		left = append(left, state.KV{Key: w.keys.Node(m.Address), Value: []byte(m.Record.Encode()),
			CreateRevision: m.Incarnation, ModRevision: m.ModRevision, Lease: m.KeyLease})
	}
	inc := w.s.Member("a:1").Incarnation
	for name, c := range map[string]struct {
		address string
		record  state.AccusationRecord
		lingers bool
	}{
		"mark":              {"a:1", state.AccusationRecord{Incarnation: inc, Removed: true}, false},
		"accusation":        {"a:1", state.AccusationRecord{Incarnation: inc, Evidence: "refused"}, true},
		"of its successor":  {"a:1", state.AccusationRecord{Incarnation: inc + 100, Removed: true}, true},
		"of another member": {"b:1", state.AccusationRecord{Incarnation: inc, Removed: true}, true},
		"withdrawn since":   {"", state.AccusationRecord{}, true},
	} {
		kvs := slices.Clone(left)
		if c.address != "" {
			kvs = append(kvs, state.KV{Key: w.keys.Accusation(c.address, "c:1"), Value: []byte(c.record.Encode()),
				CreateRevision: 50, ModRevision: 50, Lease: 3})
		}
		_, s := w.part.OnRead(w.s, state.BuildSnapshot(w.keys, 1, 50, kvs), w.now)
		require.Equal(t, c.lingers, s.Member("a:1") != nil, name)
		require.Equal(t, c.lingers, len(s.Lingering) == 1, name)
	}
}

// The same with the events of an etcd for the transaction that removes a member for its silence.
func TestRemovedForItsSilenceInEtcd(t *testing.T) {
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	keys, err := state.NewKeys("/g")
	require.NoError(t, err)
	events := client.Watch(ctx, keys.RangeStart(), clientv3.WithRange(keys.RangeEnd()), clientv3.WithRev(1))
	part, view := New(Self{"c:1", "c:1"}).OnTerm(2), state.BuildSnapshot(keys, 1, 0, nil)
	await := func(revision int64) {
		for view.Revision < revision {
			resp := <-events
			require.NoError(t, resp.Err())
			var all []state.Event
			for _, ev := range resp.Events {
				all = append(all, state.Event{Deleted: ev.Type == clientv3.EventTypeDelete, KV: state.KV{Key: string(ev.Kv.Key),
					Value: ev.Kv.Value, CreateRevision: ev.Kv.CreateRevision, ModRevision: ev.Kv.ModRevision,
					Lease: ev.Kv.Lease}})
			}
			part, view = part.Apply(view, resp.Header.Revision, all, noon)
		}
	}
	commit := func(c txn.Txn) int64 {
		resp, err := txn.Commit(ctx, client, c)
		require.NoError(t, err)
		require.True(t, resp.Succeeded)
		await(resp.Header.Revision)
		return resp.Header.Revision
	}
	for _, address := range []string{"a:1", "b:1"} {
		lease, err := client.Grant(ctx, 60)
		require.NoError(t, err)
		commit(txn.RegisterMember(keys, address, state.Record{InstanceID: address, Lease: int64(lease.ID), TTL: 60, Term: 1}))
	}
	a, b := view.Member("a:1"), view.Member("b:1")
	_, err = client.Put(ctx, keys.Candidate(a.KeyLease), "a:1", clientv3.WithLease(clientv3.LeaseID(a.KeyLease)))
	require.NoError(t, err)
	written, err := txn.Commit(ctx, client, txn.AccuseOfSilence(keys, a, b, b.Lease, ttl))
	require.NoError(t, err)
	require.True(t, written.Succeeded)
	commit(txn.RemoveSilent(keys, a, true, b, written.Header.Revision))
	require.Nil(t, view.Member("a:1"))
	require.Empty(t, view.Queue)
	require.Empty(t, view.Lingering)
	void := suspicion.VoidAccusations(view, "b:1")
	require.Len(t, void, 1)
	commit(txn.WithdrawAccusation(keys, void[0]))
	require.Empty(t, view.Accusations)
}
