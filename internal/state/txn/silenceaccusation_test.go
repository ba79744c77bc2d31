package txn

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// bed is an etcd with members, each on a lease of its own.
type bed struct {
	t      *testing.T
	ctx    context.Context
	client *clientv3.Client
	keys   state.Keys
	// m is accused by w, and by x. other has an address that begins with that of m.
	m, w, x, other *state.Member
}

func newBed(t *testing.T) *bed {
	t.Helper()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	b := &bed{t: t, ctx: etcdtest.Context(t), client: etcdtest.Client(t), keys: keys}
	b.m, b.w, b.x, b.other = b.register("m:1"), b.register("w:1"), b.register("x:1"), b.register("m:10")
	_, err = b.client.Put(b.ctx, keys.Candidate(b.m.KeyLease), b.m.Address, onLease(b.m.KeyLease))
	require.NoError(t, err)
	return b
}

func onLease(lease int64) clientv3.OpOption { return clientv3.WithLease(clientv3.LeaseID(lease)) }

func (b *bed) commit(c Txn) *clientv3.TxnResponse {
	b.t.Helper()
	resp, err := Commit(b.ctx, b.client, c)
	require.NoError(b.t, err)
	return resp
}

func (b *bed) register(address string) *state.Member {
	b.t.Helper()
	lease, err := b.client.Grant(b.ctx, 60)
	require.NoError(b.t, err)
	record := state.Record{InstanceID: "instance/" + address, Lease: int64(lease.ID), TTL: 60}
	resp := b.commit(RegisterMember(b.keys, address, record))
	require.True(b.t, resp.Succeeded)
	return &state.Member{Address: address, Incarnation: resp.Header.Revision, ModRevision: resp.Header.Revision,
		KeyLease: record.Lease, Record: record}
}

func (b *bed) delete(key string) {
	b.t.Helper()
	resp, err := b.client.Delete(b.ctx, key)
	require.NoError(b.t, err)
	require.EqualValues(b.t, 1, resp.Deleted, key)
}

// registerAnew replaces a member by another incarnation.
func (b *bed) registerAnew(m *state.Member) {
	b.t.Helper()
	b.delete(b.keys.Node(m.Address))
	b.register(m.Address)
}

// accuse accuses m of silence and returns the revision of that.
func (b *bed) accuse(m, accuser *state.Member) int64 {
	b.t.Helper()
	resp := b.commit(AccuseOfSilence(b.keys, m, accuser, accuser.Lease, 1234*time.Millisecond))
	require.True(b.t, resp.Succeeded)
	return resp.Header.Revision
}

// all returns the revision of each key below the prefix.
func (b *bed) all() map[string]int64 {
	b.t.Helper()
	resp, err := b.client.Get(b.ctx, b.keys.Prefix(), clientv3.WithPrefix())
	require.NoError(b.t, err)
	out := map[string]int64{}
	for _, kv := range resp.Kvs {
		out[string(kv.Key)] = kv.ModRevision
	}
	return out
}

// get returns the key, which must exist.
func (b *bed) get(key string) state.KV {
	b.t.Helper()
	resp, err := b.client.Get(b.ctx, key)
	require.NoError(b.t, err)
	require.Len(b.t, resp.Kvs, 1, key)
	kv := resp.Kvs[0]
	return state.KV{Key: key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
		Lease: kv.Lease}
}

// requireRefused commits a transaction that must change nothing and answer with these keys, as they are now. A key
// that does not exist is read as none.
func (b *bed) requireRefused(c Txn, reads ...string) {
	b.t.Helper()
	before := b.all()
	resp := b.commit(c)
	require.False(b.t, resp.Succeeded)
	require.Equal(b.t, before, b.all())
	require.Len(b.t, resp.Responses, len(reads))
	for i, key := range reads {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		revision, stands := before[key]
		require.Equal(b.t, stands, len(kvs) == 1, key)
		if stands {
			require.Equal(b.t, key, string(kvs[0].Key))
			require.Equal(b.t, revision, kvs[0].ModRevision)
		}
	}
}

// without returns the keys without some of them, which must be among them.
func (b *bed) without(all map[string]int64, keys ...string) map[string]int64 {
	b.t.Helper()
	out := maps.Clone(all)
	for _, key := range keys {
		require.Contains(b.t, out, key)
		delete(out, key)
	}
	return out
}

func TestAccuseOfSilence(t *testing.T) {
	b := newBed(t)
	count := func(m, accuser *state.Member) int64 {
		resp := b.commit(AccuseOfSilence(b.keys, m, accuser, accuser.Lease, 1234*time.Millisecond))
		require.True(t, resp.Succeeded)
		require.Empty(t, resp.Responses[1].GetResponseRange().Kvs)
		return resp.Responses[1].GetResponseRange().Count
	}
	require.EqualValues(t, 1, count(b.m, b.w), "its own is counted")
	key := b.keys.SilenceAccusation("m:1", "instance/w:1")
	kv := b.get(key)
	require.Equal(t, b.w.Lease, kv.Lease)
	record := state.SilenceAccusationRecord{Incarnation: b.m.Incarnation, AccuserIncarnation: b.w.Incarnation,
		SilentMS: 1234}
	require.Equal(t, record.Encode(), string(kv.Value))
	require.EqualValues(t, 2, count(b.m, b.x))
	require.EqualValues(t, 3, count(b.other, b.w))
	require.EqualValues(t, 3, count(b.m, b.w), "written anew")
	require.Greater(t, b.get(key).ModRevision, kv.ModRevision)
	again := b.commit(AccuseOfSilence(b.keys, b.m, b.w, b.w.Lease, time.Second)).Responses[2].GetResponseRange()
	require.Len(t, again.Kvs, 1)
	require.Equal(t, kv.CreateRevision, again.Kvs[0].CreateRevision, "it has stood since")
	_, err := b.client.Put(b.ctx, b.keys.Silence("m:1", "instance/w:1"), "")
	require.NoError(t, err)
	_, err = b.client.Put(b.ctx, b.keys.Accusation("m:1", "instance/w:1"), "")
	require.NoError(t, err)
	require.EqualValues(t, 3, count(b.m, b.w), "other keys are not counted")
}

func TestAccuseOfSilenceIsGuarded(t *testing.T) {
	for name, change := range map[string]func(*bed){
		"the accused is gone":         func(b *bed) { b.delete(b.keys.Node("m:1")) },
		"the accused registered anew": func(b *bed) { b.registerAnew(b.m) },
		"the accuser is gone":         func(b *bed) { b.delete(b.keys.Node("w:1")) },
		"the accuser registered anew": func(b *bed) { b.registerAnew(b.w) },
		"both are gone":               func(b *bed) { b.delete(b.keys.Node("m:1")); b.delete(b.keys.Node("w:1")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			change(b)
			b.requireRefused(AccuseOfSilence(b.keys, b.m, b.w, b.w.Lease, time.Second), b.keys.Node("m:1"),
				b.keys.Node("w:1"))
		})
	}
	t.Run("records that are written anew do not matter", func(t *testing.T) {
		b := newBed(t)
		for _, m := range []*state.Member{b.m, b.w} {
			require.True(t, b.commit(UpdateRecord(b.keys, m.Address, m.Record, m.ModRevision)).Succeeded)
		}
		b.accuse(b.m, b.w)
	})
}

func TestWithdrawSilenceAccusation(t *testing.T) {
	b := newBed(t)
	withdraw := func() (deleted int64, node []int64) {
		resp := b.commit(WithdrawSilenceAccusation(b.keys, b.m, b.w))
		require.True(t, resp.Succeeded)
		for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
			node = append(node, kv.CreateRevision)
		}
		return resp.Responses[0].GetResponseDeleteRange().Deleted, node
	}
	for _, accuser := range []*state.Member{b.w, b.x} {
		b.accuse(b.m, accuser)
	}
	b.accuse(b.other, b.w)
	before := b.all()
	deleted, node := withdraw()
	require.EqualValues(t, 1, deleted)
	require.Equal(t, []int64{b.m.Incarnation}, node)
	require.Equal(t, b.without(before, b.keys.SilenceAccusation("m:1", "instance/w:1")), b.all())
	deleted, _ = withdraw()
	require.Zero(t, deleted)

	b.accuse(b.m, b.w)
	b.delete(b.keys.Node("m:1"))
	deleted, node = withdraw()
	require.EqualValues(t, 1, deleted, "also if the accused is gone")
	require.Empty(t, node)
}

func TestRemoveSilent(t *testing.T) {
	for _, queued := range []bool{true, false} {
		b := newBed(t)
		b.accuse(b.m, b.x)
		accused := b.accuse(b.m, b.w)
		b.accuse(b.m, b.w) // a copy of that request
		b.accuse(b.other, b.w)
		require.True(t, b.commit(WriteAccusation(b.keys, b.m, "instance/x:1", b.x.Lease, "refused")).Succeeded)
		want := b.without(b.all(), b.keys.Node("m:1"), b.keys.SilenceAccusation("m:1", "instance/w:1"),
			b.keys.SilenceAccusation("m:1", "instance/x:1"))
		if queued {
			want = b.without(want, b.keys.Candidate(b.m.KeyLease))
		}
		resp := b.commit(RemoveSilent(b.keys, b.m, queued, b.w, accused))
		require.True(t, resp.Succeeded)
		mark := b.get(b.keys.Accusation("m:1", "instance/w:1"))
		want[mark.Key] = resp.Header.Revision
		require.Equal(t, want, b.all(), "all in one revision, and no more")
		require.Equal(t, b.w.Lease, mark.Lease)
		record, err := state.DecodeAccusation(mark.Value)
		require.NoError(t, err)
		require.True(t, record.MarksRemoval(b.m))
		require.Equal(t, "it answered neither its watcher nor the accusation", record.Evidence)

		again := RemoveSilent(b.keys, b.m, queued, b.w, accused)
		b.requireRefused(again, b.keys.Node("m:1"), b.keys.SilenceAccusation("m:1", "instance/w:1"), mark.Key)
	}
}

// The mark replaces an accusation on other evidence that the same accuser had written.
func TestRemoveSilentOverAnAccusation(t *testing.T) {
	b := newBed(t)
	require.True(t, b.commit(WriteAccusation(b.keys, b.m, "instance/w:1", b.w.Lease, "refused")).Succeeded)
	require.True(t, b.commit(RemoveSilent(b.keys, b.m, true, b.w, b.accuse(b.m, b.w))).Succeeded)
	record, err := state.DecodeAccusation(b.get(b.keys.Accusation("m:1", "instance/w:1")).Value)
	require.NoError(t, err)
	require.True(t, record.Removed)
}

func TestRemoveSilentIsGuarded(t *testing.T) {
	for name, change := range map[string]func(*bed){
		"the accused is gone":         func(b *bed) { b.delete(b.keys.Node("m:1")) },
		"the accused registered anew": func(b *bed) { b.registerAnew(b.m) },
		"the accuser is gone":         func(b *bed) { b.delete(b.keys.Node("w:1")) },
		"the accuser registered anew": func(b *bed) { b.registerAnew(b.w) },
		"refuted":                     func(b *bed) { b.delete(b.keys.SilenceAccusation("m:1", "instance/w:1")) },
		"refuted, and accused again": func(b *bed) {
			b.delete(b.keys.SilenceAccusation("m:1", "instance/w:1"))
			b.accuse(b.m, b.w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.accuse(b.m, b.x)
			accused := b.accuse(b.m, b.w)
			change(b)
			b.requireRefused(RemoveSilent(b.keys, b.m, true, b.w, accused), b.keys.Node("m:1"),
				b.keys.SilenceAccusation("m:1", "instance/w:1"), b.keys.Accusation("m:1", "instance/w:1"))
		})
	}
}

// If the accuser's lease has ended, etcd refuses the mark and with it the removal.
func TestRemoveSilentNeedsTheLease(t *testing.T) {
	b := newBed(t)
	accused := b.accuse(b.m, b.w)
	before := b.all()
	accuser := *b.w
	accuser.Lease = 1 << 40
	_, err := Commit(b.ctx, b.client, RemoveSilent(b.keys, b.m, true, &accuser, accused))
	require.ErrorContains(t, err, "requested lease not found")
	require.Equal(t, before, b.all())
}

// Operations on ranges, in either branch.
func TestOperationsOnRanges(t *testing.T) {
	b := newBed(t)
	nodes := b.keys.Nodes()
	ops := []Op{onPrefix(Count, nodes), onPrefix(Get, nodes), {Kind: Count, Key: b.keys.Node("m:1")},
		{Kind: Count, Key: b.keys.Node("none")}}
	for _, c := range []Txn{{Then: ops}, {If: []Guard{absent(b.keys.Node("m:1"))}, Else: ops}} {
		resp := b.commit(c)
		require.Equal(t, len(c.If) == 0, resp.Succeeded)
		require.EqualValues(t, 4, resp.Responses[0].GetResponseRange().Count)
		require.Empty(t, resp.Responses[0].GetResponseRange().Kvs)
		require.Len(t, resp.Responses[1].GetResponseRange().Kvs, 4)
		require.EqualValues(t, 1, resp.Responses[2].GetResponseRange().Count)
		require.Zero(t, resp.Responses[3].GetResponseRange().Count)
	}
	resp := b.commit(Txn{Then: []Op{onPrefix(Delete, nodes)}})
	require.EqualValues(t, 4, resp.Responses[0].GetResponseDeleteRange().Deleted)
	require.Contains(t, b.all(), b.keys.Candidate(b.m.KeyLease))
}

// The operations of a transaction pass through a collected and a fenced transaction unchanged.
func TestRangesUnderAFence(t *testing.T) {
	b := newBed(t)
	b.accuse(b.m, b.w)
	refute := Txn{If: []Guard{created(b.keys.Node("m:1"), b.m.Incarnation)},
		Then: []Op{onPrefix(Delete, b.keys.AccusationsOf("m:1")), onPrefix(Delete, b.keys.SilenceAccusationsOf("m:1"))}}
	fenced := func(guards ...Guard) (*clientv3.TxnResponse, error) {
		return Fenced(b.ctx, b.client, Fence{Guards: Comparisons(guards), CheckOver: func() error { return nil },
			RefusedError: func() error { return context.Canceled }}).If(Comparisons(refute.If)...).
			Then(etcdOps(refute.Then)...).Else(etcdOps(refute.Else)...).Commit()
	}
	_, err := fenced(absent(b.keys.Node("w:1")))
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, b.all(), b.keys.SilenceAccusation("m:1", "instance/w:1"))
	resp, err := fenced(created(b.keys.Node("w:1"), b.w.Incarnation))
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	require.EqualValues(t, 1, resp.Responses[1].GetResponseDeleteRange().Deleted)
}
