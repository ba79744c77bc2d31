package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// store is a simple reference version: a map of keys from which each snapshot is built anew.
type store struct {
	revision int64
	kvs      map[string]KV
}

func (s *store) put(key, value string, lease int64) Event {
	s.revision++
	kv := KV{Key: key, Value: []byte(value), CreateRevision: s.revision, ModRevision: s.revision, Lease: lease}
	if old, ok := s.kvs[key]; ok {
		kv.CreateRevision = old.CreateRevision
	}
	s.kvs[key] = kv
	return Event{KV: kv}
}

func (s *store) remove(key string) Event {
	s.revision++
	delete(s.kvs, key)
	return Event{KV: KV{Key: key, ModRevision: s.revision}, Deleted: true}
}

func (s *store) sorted() []KV {
	var out []KV
	for _, kv := range s.kvs {
		out = append(out, kv)
	}
	slices.SortFunc(out, func(a, b KV) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// The reducer, given batches of any size, agrees with a snapshot built from the whole range, and never changes
// an older snapshot.
func TestApplyAgreesWithBuild(t *testing.T) {
	keys := testKeys(t)
	rapid.Check(t, func(t *rapid.T) {
		st := &store{kvs: map[string]KV{}}
		snap := BuildSnapshot(keys, 1, 0, nil)
		type kept struct {
			s    *Snapshot
			text string
		}
		var old []kept
		var batch []Event
		names := []string{keys.Candidate(1), keys.Candidate(2), keys.Candidate(3), keys.Queue() +
			"x/y", keys.Acting(), keys.Request(),
			keys.Node("a:1"), keys.Node("b:1"), keys.Node("c:1"), keys.Accusation("a:1", "b"), keys.Accusation("a:1",
				"c"), "/goverse/nodes/%zz",
			keys.Drain("a:1"), keys.Drain("b:1"), keys.Drain("c:1")}
		values := []string{"a:1", Record{InstanceID: "i", Lease: 1}.Encode(), RequestRecord{Kind: RequestResign,
			Token: 3}.Encode(),
			AccusationRecord{Incarnation: 1}.Encode(), DrainRecord{Incarnation: 2, Undo: true}.Encode(), "{", ""}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			key := rapid.SampledFrom(names).Draw(t, "key")
			if _, there := st.kvs[key]; there && rapid.Bool().Draw(t, "delete") {
				batch = append(batch, st.remove(key))
			} else {
				batch = append(batch, st.put(key, rapid.SampledFrom(values).Draw(t, "value"), rapid.Int64Range(0, 3).Draw(t,
					"lease")))
			}
			if rapid.Bool().Draw(t, "flush") {
				old = append(old, kept{snap, describe(snap)})
				snap = snap.Apply(st.revision, batch)
				require.Equal(t, describe(snap), describe(snap.Apply(st.revision, batch)), "a batch applied twice")
				batch = nil
			}
		}
		snap = snap.Apply(st.revision, batch)
		require.Equal(t, describe(BuildSnapshot(keys, 1, st.revision, st.sorted())), describe(snap))
		for _, k := range old {
			require.Equal(t, k.text, describe(k.s), "an older snapshot was changed")
		}
	})
}

func describe(s *Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rev=%d acting=%+v request=%+v\n", s.Revision, s.Acting, s.Request)
	for _, c := range s.Queue {
		fmt.Fprintf(&b, "queue %+v\n", *c)
	}
	for _, m := range s.Members {
		fmt.Fprintf(&b, "member %+v\n", *m)
	}
	for _, a := range s.Accusations {
		fmt.Fprintf(&b, "accusation %+v\n", *a)
	}
	for _, d := range s.Drains {
		fmt.Fprintf(&b, "drain %+v\n", *d)
	}
	return b.String()
}

func TestStaleIsOverWithTheNextEvents(t *testing.T) {
	s := BuildSnapshot(testKeys(t), 1, 5, nil)
	require.False(t, s.Stale)
	require.True(t, s.AsStale().Stale)
	require.False(t, s.AsStale().Apply(6, nil).Stale)
}

func TestLeader(t *testing.T) {
	keys := testKeys(t)
	member := func(address string, lease int64) KV {
		return KV{Key: keys.Node(address), Value: []byte(Record{Lease: lease}.Encode()), CreateRevision: lease, Lease: lease}
	}
	candidate := func(address string, lease, rev int64) KV {
		return KV{Key: keys.Candidate(lease), Value: []byte(address), CreateRevision: rev, ModRevision: rev, Lease: lease}
	}
	acting := KV{Key: keys.Acting(), Value: []byte("a:1"), CreateRevision: 30, Lease: 1}
	outside := KV{Key: keys.Queue() + "x/y", Value: []byte("who"), CreateRevision: 5}
	a, b := member("a:1", 1), member("b:1", 2)
	for name, tc := range map[string]struct {
		kvs     []KV
		want    Leader
		planner string
	}{
		"nobody": {[]KV{a, b}, Leader{}, ""},
		"first come": {[]KV{a, b, candidate("a:1", 1, 21), candidate("b:1", 2, 20)}, Leader{Address: "b:1",
			Token: 20, Member: true, Lease: 2}, "b:1"},
		"acting": {[]KV{a, b, acting}, Leader{Address: "a:1", Token: 30, Fallback: true,
			Member: true, Lease: 1}, "a:1"},
		"elected waits": {[]KV{a, b, acting, candidate("b:1", 2, 31)}, Leader{},
			"b:1"},
		"outside leads": {[]KV{a, b, outside, candidate("b:1", 2, 20)}, Leader{Address: "who", Token: 5,
			Member: false, Lease: 0}, "b:1"},
		"lease not member": {[]KV{a, candidate("b:1", 2, 20)}, Leader{Address: "b:1", Token: 20,
			Member: false, Lease: 2}, ""},
		"value is a lie": {[]KV{a, b, candidate("a:1", 2, 20)}, Leader{Address: "a:1", Token: 20,
			Member: true, Lease: 2}, "b:1"},
	} {
		s := BuildSnapshot(keys, 1, 100, tc.kvs)
		require.Equal(t, tc.want, s.Leader(), name)
		planner := ""
		if m := s.Planner(); m != nil {
			planner = m.Address
		}
		require.Equal(t, tc.planner, planner, name)
	}
}

// A member of an election only leads like any other, and plans nothing.
func TestMemberOfAnElectionOnly(t *testing.T) {
	keys := testKeys(t)
	var kvs []KV
	for address, lease := range map[string]int64{"only": 1, "node:1": 2} {
		record := Record{Lease: lease, ElectionOnly: address == "only"}
		kvs = append(kvs, KV{Key: keys.Node(address), Value: []byte(record.Encode()), CreateRevision: lease, Lease: lease},
			KV{Key: keys.Candidate(lease), Value: []byte(address), CreateRevision: 10 + lease, ModRevision: 10 + lease,
				Lease: lease})
	}
	s := BuildSnapshot(keys, 1, 20, kvs)
	require.Equal(t, Leader{Address: "only", Token: 11, Member: true, Lease: 1}, s.Leader())
	require.Equal(t, "node:1", s.Planner().Address)
	require.Len(t, s.Members, 2)
	require.Len(t, s.MembersWithServer(), 1)
	require.Equal(t, "node:1", s.MembersWithServer()[0].Address)
}
