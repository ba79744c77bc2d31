package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOwnershipOnlyWhereProven checks that each subject is judged by itself, and ownership as strictly as
// leadership.
func TestOwnershipOnlyWhereProven(t *testing.T) {
	a := yes("a", 5, window(0, 1), window(9, 10)).of(3)
	for name, test := range map[string]struct {
		runs  []Run
		found []Kind
	}{
		"one after the other":     {[]Run{a, yes("b", 6, window(11, 12), window(20, 21)).of(3)}, nil},
		"two owners":              {[]Run{a, yes("b", 6, window(4, 5), window(6, 7)).of(3)}, []Kind{Overlap}},
		"two owners by one epoch": {[]Run{a, yes("b", 5, window(4, 5), window(6, 7)).of(3)}, []Kind{Overlap}},
		"may have been after":     {[]Run{a, seenOnce("b", 6, window(8, 30)).of(3)}, nil},
		"two shards":              {[]Run{a, yes("b", 5, window(4, 5), window(6, 7)).of(4)}, nil},
		"two shards of one node":  {[]Run{a, yes("a", 4, window(11, 12), window(20, 21)).of(4)}, nil},
		"a shard, and a leader":   {[]Run{a, yes("b", 4, window(4, 5), window(20, 21))}, nil},
		"epoch falls":             {[]Run{a, seenOnce("b", 4, window(15, 16)).of(3)}, []Kind{Token}},
		"epoch falls at home":     {[]Run{a, seenOnce("a", 4, window(15, 16)).of(3)}, []Kind{Token}},
		"epoch falls after a while": {[]Run{a, seenOnce("b", 7, window(15, 16)).of(3), seenOnce("c", 6,
			window(20, 21)).of(3)}, []Kind{Token}},
		"epoch of another owner": {[]Run{a, seenOnce("b", 5, window(15, 16)).of(3)}, []Kind{Token}},
		"epoch kept by who had it": {[]Run{a, no("a", Unknown, 11, 14).of(3), seenOnce("a", 5, window(15, 16)).of(3)},
			nil},
		"kept, but had by another": {[]Run{a, seenOnce("b", 6, window(12, 13)).of(3), no("a", Unknown, 10, 14).of(3),
			seenOnce("a", 5, window(15, 16)).of(3)}, []Kind{Token}},
		"epoch kept on another session": {[]Run{a, on(9, seenOnce("a", 5, window(15, 16)).of(3))}, []Kind{Token}},
		"another session, at once": {[]Run{on(8, a), on(9, yes("a", 5, window(11, 12), window(15, 16)).of(3))},
			[]Kind{Token}},
		"epoch grows with the session": {[]Run{on(8, a), on(9, seenOnce("a", 6, window(15, 16)).of(3))}, nil},
		"no epoch":                     {[]Run{seenOnce("a", 0, window(0, 1)).of(3)}, []Kind{Token}},
		"a token is kept by nobody": {[]Run{seenOnce("a", 5, window(0, 1)), no("a", Candidate, 2, 4), seenOnce("a", 5,
			window(5, 6))}, []Kind{Token}},
		"seen once within, by epoch": {[]Run{a, seenOnce("b", 6, window(5, 6)).of(3)}, []Kind{Overlap}},
	} {
		v := Check(History{Runs: append(test.runs, no("z", Candidate, 0, 30))}, Limits{})
		require.ElementsMatch(t, test.found, kinds(v.Findings), "%s\n%v", name, v)
		require.Empty(t, v.Exempt, name)
		for _, f := range v.Findings {
			if f.Terms[0].Subject != Leadership {
				require.Equal(t, Shard(3), f.Subject, name)
			}
		}
	}
}

// on puts a run on a session.
func on(session int64, r Run) Run {
	r.Session = session
	return r
}

// TestOwnerOfAFormerProcess checks an old process that continues under its epoch beside the next one at its
// address.
func TestOwnerOfAFormerProcess(t *testing.T) {
	old, next := seenOnce("a", 5, window(0, 1)).of(3), seenOnce("a", 5, window(5, 6)).of(3)
	next.Process = "restarted"
	v := Check(History{Runs: []Run{no("a", Candidate, 0, 10), old, next}}, Limits{})
	require.Equal(t, []Kind{Token}, kinds(v.Findings))
	require.Contains(t, v.Findings[0].Text, "the epoch did not grow")
}

func TestExemptOverlapsOfOwners(t *testing.T) {
	runs := []Run{no("a", Candidate, 0, 300), yes("a", 5, window(11, 12), window(99, 100)).of(3),
		no("b", Unknown, 0, 70).of(3), yes("b", 6, window(80, 81), window(200, 201)).of(3)} // both from 81 to 99
	limits := Limits{Exempt: map[string]time.Duration{}}
	for _, name := range []string{LeaseRevoked, RemovedAlive, KeyDeleted, OutsideLeads} {
		limits.Exempt[name] = 30 * time.Millisecond
	}
	for name, excused := range map[string]bool{LeaseRevoked: true, RemovedAlive: true,
		// A change in the queue does not affect the owner of a shard.
		KeyDeleted: false, OutsideLeads: false} {
		v := Check(History{Runs: runs, Marks: []Mark{mark("a", name, 75, 76)}}, limits)
		require.Equal(t, excused, v.OK(), name)
		if excused {
			require.Len(t, v.Exempt, 1)
			require.Equal(t, Shard(3), v.Exempt[0].Subject)
			require.Equal(t, 18*time.Millisecond, v.LongestExempt())
		}
	}
}

// TestExemptOwnerBeginsLate checks an owner that is removed alive and begins to serve one more shard before it
// knows. Its claim is excused on the lost session, but not on a later one.
func TestExemptOwnerBeginsLate(t *testing.T) {
	limits := Limits{Exempt: map[string]time.Duration{RemovedAlive: 30 * time.Millisecond}}
	for session, excused := range map[int64]bool{7: true, 8: false} {
		other := yes("a", 4, window(10, 11), window(20, 21)).of(4)
		late := yes("a", 5, window(81, 82), window(99, 100)).of(3)
		other.Session, late.Session = 7, session
		v := Check(History{Runs: []Run{no("a", Candidate, 0, 300), other, no("a", Unknown, 0, 80).of(3), late,
			no("b", Unknown, 0, 78).of(3), yes("b", 6, window(79, 80), window(200, 201)).of(3)},
			Marks: []Mark{mark("a", RemovedAlive, 75, 76)}}, limits)
		require.Equal(t, excused, v.OK(), "%v", v)
	}
}

// TestExemptLeaderBeginsLate checks the same for a leader: it sees late that it is the first in the queue, and
// later that it is no longer queued.
func TestExemptLeaderBeginsLate(t *testing.T) {
	limits := Limits{Exempt: map[string]time.Duration{RemovedAlive: 30 * time.Millisecond}}
	for session, excused := range map[int64]bool{7: true, 8: false} {
		shard := yes("a", 4, window(10, 11), window(20, 21)).of(4)
		late := yes("a", 5, window(81, 82), window(84, 85))
		shard.Session, late.Session = 7, session
		v := Check(History{Runs: []Run{no("a", Candidate, 0, 80), shard, late, no("b", Candidate, 0, 78),
			yes("b", 6, window(79, 80), window(200, 201))}, Marks: []Mark{mark("a", RemovedAlive, 75, 76)}}, limits)
		require.Equal(t, excused, v.OK(), "%v", v)
	}
}

func TestUnserved(t *testing.T) {
	alive := no("a", Candidate, 0, 5000)
	asked := no("a", Unknown, 0, 1).of(3) // and never serves it afterwards
	served := yes("a", 5, window(0, 1), window(999, 1000)).of(3)
	lost := no("a", Unknown, 1001, 1003).of(3)
	for name, test := range map[string]struct {
		runs  []Run
		marks []Mark
		found int
	}{
		"never":     {[]Run{alive, asked}, nil, 1},
		"always":    {[]Run{alive, yes("a", 5, window(0, 1), window(4998, 4999)).of(3)}, nil, 0},
		"no longer": {[]Run{alive, served, lost}, nil, 1},
		"for a while": {[]Run{alive, served, no("a", Unknown, 1001, 1899).of(3), yes("a", 5,
			window(1900, 1901), window(4998, 4999)).of(3)}, nil, 0},
		"for too long": {[]Run{alive, served, no("a", Unknown, 1001, 2099).of(3), yes("a", 5,
			window(2100, 2101), window(4998, 4999)).of(3)}, nil, 1},
		"by another instead": {[]Run{alive, no("b", Candidate, 0, 5000), served, lost, yes("b", 6,
			window(1500, 1501), window(4998, 4999)).of(3)}, nil, 0},
		"an older one ended first": {[]Run{alive, yes("a", 6, window(500, 501), window(4998, 4999)).of(3), yes("b", 5,
			window(0, 1), window(498, 499)).of(3)}, nil, 0},
		"and another shard is": {[]Run{alive, served, lost, yes("a", 5, window(0, 1), window(4998, 4999)).of(4)},
			nil, 1},
		"while a fault stands":        {[]Run{alive, served, lost}, []Mark{mark("b", "cut off", 900, 0)}, 0},
		"after a fault, not for long": {[]Run{alive, served, lost}, []Mark{mark("b", "cut off", 900, 4100)}, 0},
		"after a fault, and stays so": {[]Run{alive, served, lost}, []Mark{mark("b", "cut off", 900, 3900)}, 1},
		"everybody's fault":           {[]Run{alive, served, lost}, []Mark{mark("", "etcd down", 900, 4500)}, 0},
		"before the fault":            {[]Run{alive, asked}, []Mark{mark("b", "cut off", 1100, 0)}, 1},
		"nobody is there":             {[]Run{no("a", Candidate, 0, 1500), served, lost}, nil, 0},
		"nobody has a session": {[]Run{no("a", Candidate, 0, 1500), no("a", NoSession, 1500, 5000), served, lost},
			nil, 0},
		"all are stopped":             {[]Run{no("a", Stopped, 0, 5000), asked}, nil, 0},
		"who is there is never asked": {[]Run{no("a", Candidate, 0, 900), asked, no("b", Candidate, 0, 5000)}, nil, 0},
		"nobody looked for a while":   {[]Run{no("a", Candidate, 0, 900), no("a", Candidate, 1100, 1900), asked}, nil, 0},
		"another looked meanwhile": {[]Run{no("a", Candidate, 0, 900), no("a", Candidate, 1100, 1900), asked, no("b",
			Candidate, 800, 1200), no("b", Unknown, 800, 801).of(3)}, nil, 1},
		"its owner stood still, alive": {[]Run{no("b", Candidate, 0, 5000), asked, alive, yes("a", 5, window(0, 1),
			window(9, 10)).of(3), yes("a", 5, window(3000, 3001), window(4998, 4999)).of(3)}, nil, 0},
		"without shards nothing is said": {[]Run{alive}, nil, 0},
	} {
		v := Check(History{Runs: test.runs, Marks: test.marks}, Limits{Unserved: time.Second})
		require.Len(t, v.Of(Unserved), test.found, "%s\n%v", name, v)
		require.Len(t, v.Findings, test.found, "%s\n%v", name, v)
		for _, f := range v.Findings {
			require.Equal(t, Shard(3), f.Subject, name)
			require.GreaterOrEqual(t, f.Length(), time.Second, name)
		}
	}
	long := History{Runs: []Run{no("a", Candidate, 0, 40000), asked}}
	require.Equal(t, []Kind{Unserved}, kinds(Check(long, Limits{}).Findings), "30 s by default")
	long.Runs[0].Last = window(28999, 29000)
	require.Empty(t, Check(long, Limits{}).Findings, "30 s by default")
}

func TestPausesBetweenOwners(t *testing.T) {
	v := Check(History{Runs: []Run{no("a", Candidate, 0, 1000),
		yes("a", 5, window(0, 1), window(99, 100)).of(3), yes("b", 6, window(108, 109), window(200, 201)).of(3),
		yes("a", 7, window(229, 230), window(300, 301)).of(3),
		yes("a", 1, window(0, 1), window(300, 301)).of(4)}}, Limits{})
	require.True(t, v.OK(), v)
	require.Equal(t, []time.Duration{10 * time.Millisecond, 30 * time.Millisecond}, v.Pauses(Shard(3)),
		"no longer than that")
	require.Empty(t, v.Pauses(Shard(4)))
	require.Empty(t, v.Pauses(Leadership))
	require.Equal(t, Pauses{Count: 2, Median: 30 * time.Millisecond, Longest: 30 * time.Millisecond}, v.Seen.Pauses)
	require.Equal(t, 2, v.Seen.Shards)
	require.Equal(t, 4, v.Seen.Ownerships)
	require.Contains(t, v.String(), "2 shards, 4 ownerships, 2 pauses between two, median 30ms, longest 30ms")
	overlapping := []Term{{First: window(0, 1), Last: window(99, 100)}, {First: window(50, 51), Last: window(60, 61)},
		{First: window(119, 120), Last: window(130, 131)}}
	require.Equal(t, []time.Duration{0, 21 * time.Millisecond}, pauses(overlapping), "since the last of them ended")
}

// TestRegisterOfAShard checks that the register of a shard is judged by the epochs of that shard's owners.
func TestRegisterOfAShard(t *testing.T) {
	for name, test := range map[string]struct {
		subject Subject
		found   []Kind
	}{
		"a newer owner of it": {Shard(3), []Kind{Stale}},
		"of another shard":    {Shard(4), nil},
		"a leader":            {Leadership, nil},
	} {
		b := &book{}
		b.write("a", 5, 20, 50, 51)
		b.ops[0].Subject = Shard(3)
		newer := seenOnce("c", 6, window(47, 49))
		newer.Subject = test.subject
		v := Check(History{Runs: []Run{no("a", Candidate, 0, 100), newer}, Ops: b.ops}, Limits{})
		require.Equal(t, test.found, append([]Kind(nil), kinds(v.Findings)...), name)
	}
	b := &book{}
	b.write("b", 6, 20, 10, 11)
	b.write("a", 5, 21, 12, 13)
	for i := range b.ops {
		b.ops[i].Subject = Shard(3)
	}
	v := Check(History{Runs: []Run{no("a", Candidate, 0, 100)}, Ops: b.ops}, Limits{})
	require.Equal(t, []Kind{Stale}, kinds(v.Findings))
	require.Equal(t, Shard(3), v.Findings[0].Subject)
	require.Contains(t, v.Findings[0].Text, "by epoch 5")
}

func TestReportAboutAShardLeavesOtherShardsOut(t *testing.T) {
	v := Check(History{Runs: []Run{no("a", Candidate, 0, 300), no("b", Candidate, 0, 300),
		yes("a", 5, window(0, 1), window(99, 100)).of(3), no("a", Unknown, 101, 200).of(3),
		yes("b", 6, window(80, 81), window(200, 201)).of(3), yes("b", 9, window(80, 81), window(200, 201)).of(4)}}, Limits{})
	require.Equal(t, "two owners of shard 3: a (p-a) by epoch 5, and b (p-b) by epoch 6", v.Findings[0].Text)
	text := v.String()
	require.Contains(t, text, "a (p-a): serves shard 3 under epoch 5; sampled")
	require.Contains(t, text, "a (p-a): does not serve shard 3; sampled")
	require.Contains(t, text, "b (p-b): does not lead, candidate")
	require.NotContains(t, text, "shard 4")
}
