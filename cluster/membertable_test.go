package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

// memberKV returns a member's record on the lease with the number of its incarnation.
func memberKV(keys state.Keys, address string, incarnation int64, alter func(*state.Record)) state.KV {
	r := state.Record{Lease: incarnation, Shards: 8}
	alter(&r)
	return state.KV{Key: keys.Node(address), Value: []byte(r.Encode()), CreateRevision: incarnation,
		ModRevision: incarnation, Lease: incarnation}
}

// answers reports no silence for any member.
func answers(*state.Snapshot, *state.Member) (time.Duration, int) { return 0, 0 }

func TestMemberTable(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	as := func(*state.Record) {}
	queued := func(lease int64, address string) state.KV {
		return state.KV{Key: keys.Candidate(lease), Value: []byte(address), CreateRevision: 10 + lease,
			ModRevision: 10 + lease, Lease: lease}
	}
	accuses := func(address string, incarnation int64) state.KV {
		return state.KV{Key: keys.Accusation(address, "x"), CreateRevision: 30, ModRevision: 30,
			Value: []byte(state.AccusationRecord{Incarnation: incarnation}.Encode())}
	}
	s := state.BuildSnapshot(keys, 1, 40, []state.KV{memberKV(keys, "a:1", 2, as), memberKV(keys, "b:1", 3, as),
		memberKV(keys, "c:1", 4, func(r *state.Record) { r.Observer, r.Weight = true, 3 }),
		memberKV(keys, "d:1", 5, func(r *state.Record) { r.ElectionFailed, r.Reason = true, "denied" }),
		queued(3, "b:1"), queued(2, "a:1"), accuses("c:1", 4), accuses("d:1", 1),
		{Key: keys.ShardMap(), CreateRevision: 20, ModRevision: 20, Value: []byte(`{"version":1,"shards":8,"generation":5,
			"grants":[{"address":"a:1","incarnation":2,"epoch":3,"shards":"0-4"},
			{"address":"b:1","incarnation":1,"epoch":5,"shards":"5-7"}]}`)}})
	at := time.Unix(100, 0)
	table := newMemberTable(s, func(who memberIncarnation) time.Time { return at.Add(time.Duration(who.incarnation)) },
		answers)
	require.EqualValues(t, 40, table.Revision)
	require.Equal(t, 1, table.Format)
	require.Equal(t, "a:1", table.FormatBy)
	type row struct {
		state     MemberState
		place     int
		owned     int
		suspected bool
		failed    string
	}
	got := map[string]row{}
	for _, m := range table.Members {
		got[m.Address] = row{m.State, m.Place, m.Owned, m.Suspected, m.ElectionFailed}
		require.Equal(t, at.Add(time.Duration(m.Incarnation)), m.SeenSince)
	}
	require.Equal(t, map[string]row{
		"a:1": {MemberLeader, 1, 5, false, ""},
		"b:1": {MemberCandidate, 2, 0, false, ""}, // its former incarnation owned some
		"c:1": {MemberObserver, 0, 0, true, ""},
		"d:1": {MemberFollower, 0, 0, false, "denied"}, // its former incarnation was accused
	}, got)
	require.NotNil(t, newMemberTable(state.BuildSnapshot(keys, 1, 1, nil), nil, answers).Members)
}

// A member that returns is another one; a member that stays keeps its time.
func TestSightings(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	as := func(*state.Record) {}
	var l sightings
	require.Zero(t, l.firstSeen(memberIncarnation{"a:1", 2}))
	l.record(state.BuildSnapshot(keys, 1, 5, []state.KV{memberKV(keys, "a:1", 2, as), memberKV(keys, "b:1", 3, as)}),
		time.Unix(1, 0))
	l.record(state.BuildSnapshot(keys, 1, 6, []state.KV{memberKV(keys, "a:1", 2, as), memberKV(keys, "b:1", 6, as)}),
		time.Unix(2, 0))
	require.Equal(t, time.Unix(1, 0), l.firstSeen(memberIncarnation{"a:1", 2}))
	require.Equal(t, time.Unix(2, 0), l.firstSeen(memberIncarnation{"b:1", 6}))
	require.Zero(t, l.firstSeen(memberIncarnation{"b:1", 3}))
}
