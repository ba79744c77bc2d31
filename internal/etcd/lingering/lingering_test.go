package lingering

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

var noon = time.Unix(1_000_000, 0)

const ttl = 10 * time.Second

// world is etcd's side: three members with a lease of the first term each, a:1 the leader, in the view of c:1.
type world struct {
	t        *testing.T
	keys     state.Keys
	revision int64
	now      time.Time
	part     Members
	s        *state.Snapshot
}

func newWorld(t *testing.T) *world {
	keys, err := state.NewKeys("/g")
	require.NoError(t, err)
	w := &world{t: t, keys: keys, now: noon, part: New(Self{"c:1", "c:1"}).OnTerm(1),
		s: state.BuildSnapshot(keys, 1, 0, nil)}
	for i, address := range []string{"a:1", "b:1", "c:1"} {
		w.register(address, int64(i+1), 1, false)
		w.apply(w.put(keys.Candidate(int64(i+1)), address, int64(i+1)))
	}
	return w
}

func (w *world) put(key, value string, lease int64) state.Event {
	w.revision++
	return state.Event{KV: state.KV{Key: key, Value: []byte(value), CreateRevision: w.revision,
		ModRevision: w.revision, Lease: lease}}
}

func (w *world) register(address string, lease int64, term uint64, early bool) {
	r := state.Record{InstanceID: address, Lease: lease, TTL: int64(ttl / time.Second), Term: term, RevokedEarly: early}
	w.apply(w.put(w.keys.Node(address), r.Encode(), lease))
}

// revoke deletes the keys on a lease, in one revision.
func (w *world) revoke(address string, lease int64, more ...string) {
	w.revision++
	var events []state.Event
	for _, key := range append(more, w.keys.Candidate(lease), w.keys.Node(address)) {
		events = append(events, state.Event{KV: state.KV{Key: key, ModRevision: w.revision}, Deleted: true})
	}
	w.apply(events...)
}

func (w *world) apply(events ...state.Event) {
	w.part, w.s = w.part.Apply(w.s, w.revision, events, w.now)
}

func (w *world) after(d time.Duration) (again time.Duration) {
	w.now = w.now.Add(d)
	w.part, w.s, again = w.part.Expire(w.s, w.now)
	return again
}

func (w *world) leads(address string) {
	w.t.Helper()
	require.Equal(w.t, address, w.s.Leader().Address)
}

// inLaterTerm returns the world after etcd has elected another leader.
func inLaterTerm(t *testing.T) *world {
	w := newWorld(t)
	w.part = w.part.OnTerm(2)
	return w
}

func TestNobodyLingersInTheTermOfItsLease(t *testing.T) {
	w := newWorld(t)
	w.revoke("a:1", 1)
	w.leads("b:1")
	require.Empty(t, w.s.Lingering)
	require.Equal(t, 4, w.s.Total)
}

// The lease ended by itself, as far as is known: the lease of b:1 is as old and stands.
func TestGracePeriodWhileAnotherOldLeaseStands(t *testing.T) {
	w := inLaterTerm(t)
	w.revoke("a:1", 1)
	require.Equal(t, 4, w.s.Total, "etcd has its keys no more")
	require.Equal(t, gracePeriod, w.after(0))
	w.after(gracePeriod - 1)
	w.leads("a:1")
	require.NotNil(t, w.s.Member("a:1"))
	require.Zero(t, w.after(1))
	w.leads("b:1")
	require.Nil(t, w.s.Member("a:1"))
	require.Empty(t, w.s.Lingering)
}

func TestDistanceLengthensTheGracePeriod(t *testing.T) {
	w := inLaterTerm(t)
	w.revoke("a:1", 1)
	w.s.Member("a:1").RoundTripMS = 160
	require.Equal(t, 800*time.Millisecond, w.after(0))
	w.s.Member("a:1").RoundTripMS = 60_000
	require.Equal(t, ttl, w.after(0), "no longer than it may claim anything")
}

// A member that could report an early revocation for others may be farther from etcd than they are.
func TestDistanceOfOneLengthensTheGracePeriodOfAll(t *testing.T) {
	w := inLaterTerm(t)
	w.s.Member("b:1").RoundTripMS = 160
	w.revoke("a:1", 1)
	w.revoke("b:1", 2)
	require.Equal(t, 800*time.Millisecond, w.after(0))
	w.leads("a:1")
	w.after(600 * time.Millisecond)
	w.leads("a:1")
	w.register("b:1", 4, 2, true)
	w.leads("a:1")
	require.Equal(t, ttl-600*time.Millisecond, w.after(0))
}

// No old lease stands: a deposed leader of etcd may have had all of them revoked.
func TestWholeTTLWhenAllOldLeasesAreGone(t *testing.T) {
	w := inLaterTerm(t)
	w.revoke("a:1", 1)
	w.revoke("b:1", 2)
	w.revoke("c:1", 3) // its own lease, which it does not keep in view
	require.Nil(t, w.s.Member("c:1"))
	require.Len(t, w.s.Lingering, 2)
	w.register("c:1", 4, 2, false)
	w.register("d:1", 5, 2, false)
	require.Equal(t, ttl, w.after(0))

	w.register("b:1", 6, 2, false) // it has noticed
	require.Len(t, w.s.Lingering, 1)
	require.Len(t, w.s.Queue, 1)
	w.leads("a:1")

	w.after(ttl - 1)
	w.leads("a:1")
	w.after(1)
	w.leads("")
	require.Len(t, w.s.Members, 3)
}

// The deposed leader steps down in the middle: the lease of b:1 stands, but c:1 reports the revocation.
func TestWholeTTLWhenOneTells(t *testing.T) {
	w := inLaterTerm(t)
	w.revoke("c:1", 3)
	w.register("c:1", 4, 2, true)
	w.after(ttl / 2)
	w.revoke("a:1", 1)
	require.Equal(t, ttl, w.after(0))
	w.after(2 * ttl)
	w.leads("b:1")
	w.revoke("b:1", 2)
	require.NotEmpty(t, w.s.Lingering)
}

func TestRemovedOnEvidence(t *testing.T) {
	w := inLaterTerm(t)
	accusation := w.keys.Accusation("a:1", "b")
	w.apply(w.put(accusation, state.AccusationRecord{Incarnation: 1}.Encode(), 2))
	w.revoke("a:1", 1, accusation)
	require.Empty(t, w.s.Lingering)
	w.leads("b:1")
}

// A member that only gave up its candidacy does not linger as a leader.
func TestResignedBefore(t *testing.T) {
	w := inLaterTerm(t)
	w.revision++
	w.apply(state.Event{KV: state.KV{Key: w.keys.Candidate(1), ModRevision: w.revision}, Deleted: true})
	w.leads("b:1")
	w.revoke("a:1", 1)
	w.leads("b:1")
	require.Len(t, w.s.Lingering, 1)
}

// The range is read anew in between.
func TestReadAnew(t *testing.T) {
	w := inLaterTerm(t)
	w.revoke("a:1", 1)
	var left []state.KV
	for _, m := range w.s.Members[1:] {
		left = append(left, state.KV{Key: w.keys.Node(m.Address), Value: []byte(m.Record.Encode()),
			CreateRevision: m.Incarnation, ModRevision: m.ModRevision, Lease: m.KeyLease})
	}
	without := func(kvs []state.KV) *state.Snapshot { return state.BuildSnapshot(w.keys, 1, w.revision, kvs) }
	part, s := w.part.OnRead(w.s, without(left), w.now.Add(time.Millisecond))
	require.Len(t, s.Lingering, 1, "who lingered goes on to")
	require.Equal(t, "a:1", s.Leader().Address)
	_, _, again := part.Expire(s, w.now.Add(time.Millisecond))
	require.Equal(t, gracePeriod-time.Millisecond, again)

	part, s = part.OnRead(s, without(left[1:]), w.now)
	require.Len(t, s.Lingering, 2, "and who is missing begins to")
	part, s = part.OnRead(s, without(left), w.now)
	require.Len(t, s.Lingering, 1, "who is there again does not")

	other := without(left)
	other.History++
	_, s = part.OnRead(s, other, w.now)
	require.Empty(t, s.Lingering, "of another history nothing is known")
}

// An identity of a member of an election only is a name, which another process may have too. That process does not
// show that the first one has noticed, neither to others nor to itself.
func TestAnotherProcessUnderTheIdentity(t *testing.T) {
	electionOnly := func(w *world, id, instance string, lease int64, term uint64) {
		r := state.Record{InstanceID: instance, Lease: lease, TTL: int64(ttl / time.Second), Term: term, ElectionOnly: true}
		w.apply(w.put(w.keys.Node(id), r.Encode(), lease))
		w.apply(w.put(w.keys.Candidate(lease), id, lease))
	}
	for name, own := range map[string]Self{"others": {"c:1", "c:1"}, "itself": {"name", "second"}} {
		w := &world{t: t, keys: newWorld(t).keys, now: noon, part: New(own).OnTerm(1)}
		w.s = state.BuildSnapshot(w.keys, 1, 0, nil)
		electionOnly(w, "name", "first", 1, 1)
		w.register("c:1", 2, 1, false)
		first := w.s.Leader()
		w.part = w.part.OnTerm(2)
		require.False(t, ViewFresh(w.s, own, 2), name)
		w.revoke("name", 1)
		require.Equal(t, first, w.s.Leader(), name)

		electionOnly(w, "name", "second", 3, 2)
		require.Equal(t, first, w.s.Leader(), name)
		require.Equal(t, "second", w.s.Member("name").InstanceID, name)
		var all []state.KV
		for _, m := range w.s.RegisteredMembers() {
			all = append(all, state.KV{Key: w.keys.Node(m.Address), Value: []byte(m.Record.Encode()),
				CreateRevision: m.Incarnation, ModRevision: m.ModRevision, Lease: m.KeyLease})
		}
		part, s := w.part.OnRead(w.s, state.BuildSnapshot(w.keys, 1, w.revision, all), w.now)
		require.Equal(t, first, s.Leader(), name)
		_, s, _ = part.Expire(s, w.now.Add(ttl))
		require.Empty(t, s.Queue, name)
		require.NotNil(t, s.Member("name"), name)

		w.revoke("name", 3)
		require.Equal(t, first, w.s.Leader(), name)
		electionOnly(w, "name", "first", 4, 2)
		require.Equal(t, int64(4), w.s.Leader().Lease, "it has noticed")
		require.Empty(t, w.s.Lingering)
	}
}

// The other process registers while this one reads the range anew.
func TestAnotherProcessUnderTheIdentityWhileReading(t *testing.T) {
	w := inLaterTerm(t)
	record := state.Record{InstanceID: "first", Lease: 9, TTL: int64(ttl / time.Second), Term: 1, ElectionOnly: true}
	w.apply(w.put(w.keys.Node("name"), record.Encode(), 9))
	record.InstanceID, record.Lease, record.Term = "second", 10, 2
	now := state.KV{Key: w.keys.Node("name"), Value: []byte(record.Encode()), CreateRevision: 20, ModRevision: 20,
		Lease: 10}
	_, s := w.part.OnRead(w.s, state.BuildSnapshot(w.keys, 1, 20, []state.KV{now}), w.now)
	require.Contains(t, s.Lingering, state.LingeringState{Member: w.s.Member("name")})
	require.Equal(t, "second", s.Member("name").InstanceID)
}

func TestTheZeroPartKeepsNobody(t *testing.T) {
	w := newWorld(t)
	w.part = Members{}.OnTerm(2)
	w.revoke("a:1", 1)
	require.Empty(t, w.s.Lingering)
	w.leads("b:1")
}

// Only the node key was deleted, out of band: the place in the queue is there, and stays.
func TestCandidacyThatStandsIsNotForgotten(t *testing.T) {
	w := inLaterTerm(t)
	w.revision++
	w.apply(state.Event{KV: state.KV{Key: w.keys.Node("a:1"), ModRevision: w.revision}, Deleted: true})
	require.Len(t, w.s.Lingering, 1)
	w.after(ttl)
	require.Empty(t, w.s.Lingering)
	w.leads("a:1")
}
