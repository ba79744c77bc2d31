package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOwnershipOnlyWhereProven checks that each subject is judged by itself, and ownership as strictly as
// leadership.
func TestOwnershipOnlyWhereProven(t *testing.T) {
	a := leadingRun("a", 5, newWindow(0, 1), newWindow(9, 10)).ofShard(3)
	for name, test := range map[string]struct {
		runs  []Run
		found []Kind
	}{
		"one after the other": {[]Run{a, leadingRun("b", 6, newWindow(11, 12), newWindow(20, 21)).ofShard(3)}, nil},
		"two owners": {[]Run{a, leadingRun("b", 6, newWindow(4, 5), newWindow(6, 7)).ofShard(3)},
			[]Kind{Overlap}},
		"two owners by one epoch": {[]Run{a, leadingRun("b", 5, newWindow(4, 5), newWindow(6, 7)).ofShard(3)},
			[]Kind{Overlap}},
		"may have been after":    {[]Run{a, seenOnce("b", 6, newWindow(8, 30)).ofShard(3)}, nil},
		"two shards":             {[]Run{a, leadingRun("b", 5, newWindow(4, 5), newWindow(6, 7)).ofShard(4)}, nil},
		"two shards of one node": {[]Run{a, leadingRun("a", 4, newWindow(11, 12), newWindow(20, 21)).ofShard(4)}, nil},
		"a shard, and a leader":  {[]Run{a, leadingRun("b", 4, newWindow(4, 5), newWindow(20, 21))}, nil},
		"epoch falls":            {[]Run{a, seenOnce("b", 4, newWindow(15, 16)).ofShard(3)}, []Kind{Token}},
		"epoch falls at home":    {[]Run{a, seenOnce("a", 4, newWindow(15, 16)).ofShard(3)}, []Kind{Token}},
		"epoch falls after a while": {[]Run{a, seenOnce("b", 7, newWindow(15, 16)).ofShard(3), seenOnce("c", 6,
			newWindow(20, 21)).ofShard(3)}, []Kind{Token}},
		"epoch of another owner": {[]Run{a, seenOnce("b", 5, newWindow(15, 16)).ofShard(3)}, []Kind{Token}},
		"epoch kept by who had it": {[]Run{a, idleRun("a", Unknown, 11, 14).ofShard(3),
			seenOnce("a", 5, newWindow(15, 16)).ofShard(3)},
			nil},
		"kept, but had by another": {[]Run{a, seenOnce("b", 6, newWindow(12, 13)).ofShard(3),
			idleRun("a", Unknown, 10, 14).ofShard(3),
			seenOnce("a", 5, newWindow(15, 16)).ofShard(3)}, []Kind{Token}},
		"epoch kept on another session": {[]Run{a, withSession(9, seenOnce("a", 5, newWindow(15, 16)).ofShard(3))},
			[]Kind{Token}},
		"another session, at once": {[]Run{withSession(8, a), withSession(9,
			leadingRun("a", 5, newWindow(11, 12), newWindow(15, 16)).ofShard(3))},
			[]Kind{Token}},
		"epoch grows with the session": {[]Run{withSession(8, a), withSession(9,
			seenOnce("a", 6, newWindow(15, 16)).ofShard(3))}, nil},
		"no epoch": {[]Run{seenOnce("a", 0, newWindow(0, 1)).ofShard(3)}, []Kind{Token}},
		"a token is kept by nobody": {[]Run{seenOnce("a", 5, newWindow(0, 1)), idleRun("a", Candidate, 2, 4), seenOnce("a", 5,
			newWindow(5, 6))}, []Kind{Token}},
		"seen once within, by epoch": {[]Run{a, seenOnce("b", 6, newWindow(5, 6)).ofShard(3)}, []Kind{Overlap}},
	} {
		v := Check(History{Runs: append(test.runs, idleRun("z", Candidate, 0, 30))}, Limits{})
		require.ElementsMatch(t, test.found, kinds(v.Findings), "%s\n%v", name, v)
		require.Empty(t, v.Exempt, name)
		for _, f := range v.Findings {
			if f.Terms[0].Subject != Leadership {
				require.Equal(t, Shard(3), f.Subject, name)
			}
		}
	}
}

// withSession puts a run on a session.
func withSession(session int64, r Run) Run {
	r.Session = session
	return r
}

// TestOwnerOfAFormerProcess checks an old process that continues under its epoch beside the next one at its
// address.
func TestOwnerOfAFormerProcess(t *testing.T) {
	old, next := seenOnce("a", 5, newWindow(0, 1)).ofShard(3), seenOnce("a", 5, newWindow(5, 6)).ofShard(3)
	next.Process = "restarted"
	v := Check(History{Runs: []Run{idleRun("a", Candidate, 0, 10), old, next}}, Limits{})
	require.Equal(t, []Kind{Token}, kinds(v.Findings))
	require.Contains(t, v.Findings[0].Text, "the epoch did not grow")
}

func TestExemptOverlapsOfOwners(t *testing.T) {
	runs := []Run{idleRun("a", Candidate, 0, 300), leadingRun("a", 5, newWindow(11, 12), newWindow(99, 100)).ofShard(3),
		// both from 81 to 99
		idleRun("b", Unknown, 0, 70).ofShard(3), leadingRun("b", 6, newWindow(80, 81), newWindow(200, 201)).ofShard(3)}
	limits := Limits{Exempt: map[string]time.Duration{}}
	for _, name := range []string{LeaseRevoked, RemovedAlive, KeyDeleted, OutsideLeads} {
		limits.Exempt[name] = 30 * time.Millisecond
	}
	for name, excused := range map[string]bool{LeaseRevoked: true, RemovedAlive: true,
		// A change in the queue does not affect the owner of a shard.
		KeyDeleted: false, OutsideLeads: false} {
		v := Check(History{Runs: runs, Marks: []Mark{newMark("a", name, 75, 76)}}, limits)
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
		other := leadingRun("a", 4, newWindow(10, 11), newWindow(20, 21)).ofShard(4)
		late := leadingRun("a", 5, newWindow(81, 82), newWindow(99, 100)).ofShard(3)
		other.Session, late.Session = 7, session
		v := Check(History{Runs: []Run{idleRun("a", Candidate, 0, 300), other, idleRun("a", Unknown, 0, 80).ofShard(3), late,
			idleRun("b", Unknown, 0, 78).ofShard(3), leadingRun("b", 6, newWindow(79, 80), newWindow(200, 201)).ofShard(3)},
			Marks: []Mark{newMark("a", RemovedAlive, 75, 76)}}, limits)
		require.Equal(t, excused, v.OK(), "%v", v)
	}
}

// TestExemptLeaderBeginsLate checks the same for a leader: it sees late that it is the first in the queue, and
// later that it is no longer queued.
func TestExemptLeaderBeginsLate(t *testing.T) {
	limits := Limits{Exempt: map[string]time.Duration{RemovedAlive: 30 * time.Millisecond}}
	for session, excused := range map[int64]bool{7: true, 8: false} {
		shard := leadingRun("a", 4, newWindow(10, 11), newWindow(20, 21)).ofShard(4)
		late := leadingRun("a", 5, newWindow(81, 82), newWindow(84, 85))
		shard.Session, late.Session = 7, session
		v := Check(History{Runs: []Run{idleRun("a", Candidate, 0, 80), shard, late, idleRun("b", Candidate, 0, 78),
			leadingRun("b", 6, newWindow(79, 80), newWindow(200, 201))}, Marks: []Mark{newMark("a", RemovedAlive, 75, 76)}},
			limits)
		require.Equal(t, excused, v.OK(), "%v", v)
	}
}

func TestUnserved(t *testing.T) {
	alive := idleRun("a", Candidate, 0, 5000)
	asked := idleRun("a", Unknown, 0, 1).ofShard(3) // and never serves it afterwards
	served := leadingRun("a", 5, newWindow(0, 1), newWindow(999, 1000)).ofShard(3)
	lost := idleRun("a", Unknown, 1001, 1003).ofShard(3)
	for name, test := range map[string]struct {
		runs  []Run
		marks []Mark
		found int
	}{
		"never":     {[]Run{alive, asked}, nil, 1},
		"always":    {[]Run{alive, leadingRun("a", 5, newWindow(0, 1), newWindow(4998, 4999)).ofShard(3)}, nil, 0},
		"no longer": {[]Run{alive, served, lost}, nil, 1},
		"for a while": {[]Run{alive, served, idleRun("a", Unknown, 1001, 1899).ofShard(3), leadingRun("a", 5,
			newWindow(1900, 1901), newWindow(4998, 4999)).ofShard(3)}, nil, 0},
		"for too long": {[]Run{alive, served, idleRun("a", Unknown, 1001, 2099).ofShard(3), leadingRun("a", 5,
			newWindow(2100, 2101), newWindow(4998, 4999)).ofShard(3)}, nil, 1},
		"by another instead": {[]Run{alive, idleRun("b", Candidate, 0, 5000), served, lost, leadingRun("b", 6,
			newWindow(1500, 1501), newWindow(4998, 4999)).ofShard(3)}, nil, 0},
		"an older one ended first": {[]Run{alive, leadingRun("a", 6, newWindow(500, 501), newWindow(4998, 4999)).ofShard(3),
			leadingRun("b", 5,
				newWindow(0, 1), newWindow(498, 499)).ofShard(3)}, nil, 0},
		"and another shard is": {[]Run{alive, served, lost, leadingRun("a", 5, newWindow(0, 1),
			newWindow(4998, 4999)).ofShard(4)},
			nil, 1},
		"while a fault stands":        {[]Run{alive, served, lost}, []Mark{newMark("b", "cut off", 900, 0)}, 0},
		"after a fault, not for long": {[]Run{alive, served, lost}, []Mark{newMark("b", "cut off", 900, 4100)}, 0},
		"after a fault, and stays so": {[]Run{alive, served, lost}, []Mark{newMark("b", "cut off", 900, 3900)}, 1},
		"everybody's fault":           {[]Run{alive, served, lost}, []Mark{newMark("", "etcd down", 900, 4500)}, 0},
		"before the fault":            {[]Run{alive, asked}, []Mark{newMark("b", "cut off", 1100, 0)}, 1},
		"nobody is there":             {[]Run{idleRun("a", Candidate, 0, 1500), served, lost}, nil, 0},
		"nobody has a session": {[]Run{idleRun("a", Candidate, 0, 1500), idleRun("a", NoSession, 1500, 5000), served, lost},
			nil, 0},
		"all are stopped": {[]Run{idleRun("a", Stopped, 0, 5000), asked}, nil, 0},
		"who is there is never asked": {[]Run{idleRun("a", Candidate, 0, 900), asked, idleRun("b", Candidate, 0, 5000)},
			nil, 0},
		"nobody looked for a while": {[]Run{idleRun("a", Candidate, 0, 900), idleRun("a", Candidate, 1100, 1900), asked},
			nil, 0},
		"another looked meanwhile": {[]Run{idleRun("a", Candidate, 0, 900), idleRun("a", Candidate, 1100, 1900), asked,
			idleRun("b",
				Candidate, 800, 1200), idleRun("b", Unknown, 800, 801).ofShard(3)}, nil, 1},
		"its owner stood still, alive": {[]Run{idleRun("b", Candidate, 0, 5000), asked, alive,
			leadingRun("a", 5, newWindow(0, 1),
				newWindow(9, 10)).ofShard(3), leadingRun("a", 5, newWindow(3000, 3001), newWindow(4998, 4999)).ofShard(3)}, nil, 0},
		"without shards nothing is said": {[]Run{alive}, nil, 0},
	} {
		v := Check(History{Runs: test.runs, Marks: test.marks}, Limits{Unserved: time.Second})
		require.Len(t, v.FindingsOf(Unserved), test.found, "%s\n%v", name, v)
		require.Len(t, v.Findings, test.found, "%s\n%v", name, v)
		for _, f := range v.Findings {
			require.Equal(t, Shard(3), f.Subject, name)
			require.GreaterOrEqual(t, f.Length(), time.Second, name)
		}
	}
	long := History{Runs: []Run{idleRun("a", Candidate, 0, 40000), asked}}
	require.Equal(t, []Kind{Unserved}, kinds(Check(long, Limits{}).Findings), "30 s by default")
	long.Runs[0].Last = newWindow(28999, 29000)
	require.Empty(t, Check(long, Limits{}).Findings, "30 s by default")
}

func TestPausesBetweenOwners(t *testing.T) {
	v := Check(History{Runs: []Run{idleRun("a", Candidate, 0, 1000),
		leadingRun("a", 5, newWindow(0, 1), newWindow(99, 100)).ofShard(3),
		leadingRun("b", 6, newWindow(108, 109), newWindow(200, 201)).ofShard(3),
		leadingRun("a", 7, newWindow(229, 230), newWindow(300, 301)).ofShard(3),
		leadingRun("a", 1, newWindow(0, 1), newWindow(300, 301)).ofShard(4)}}, Limits{})
	require.True(t, v.OK(), v)
	require.Equal(t, []time.Duration{10 * time.Millisecond, 30 * time.Millisecond}, v.Pauses(Shard(3)),
		"no longer than that")
	require.Empty(t, v.Pauses(Shard(4)))
	require.Empty(t, v.Pauses(Leadership))
	require.Equal(t, Pauses{Count: 2, Median: 30 * time.Millisecond, Longest: 30 * time.Millisecond}, v.Seen.Pauses)
	require.Equal(t, 2, v.Seen.Shards)
	require.Equal(t, 4, v.Seen.Ownerships)
	require.Contains(t, v.String(), "2 shards, 4 ownerships, 2 pauses between two, median 30ms, longest 30ms")
	overlapping := []Term{{First: newWindow(0, 1), Last: newWindow(99, 100)},
		{First: newWindow(50, 51), Last: newWindow(60, 61)},
		{First: newWindow(119, 120), Last: newWindow(130, 131)}}
	require.Equal(t, []time.Duration{0, 21 * time.Millisecond}, pausesBetween(overlapping), "since the last of them ended")
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
		b := &opLog{}
		b.addWrite("a", 5, 20, 50, 51)
		b.ops[0].Subject = Shard(3)
		newer := seenOnce("c", 6, newWindow(47, 49))
		newer.Subject = test.subject
		v := Check(History{Runs: []Run{idleRun("a", Candidate, 0, 100), newer}, Ops: b.ops}, Limits{})
		require.Equal(t, test.found, append([]Kind(nil), kinds(v.Findings)...), name)
	}
	b := &opLog{}
	b.addWrite("b", 6, 20, 10, 11)
	b.addWrite("a", 5, 21, 12, 13)
	for i := range b.ops {
		b.ops[i].Subject = Shard(3)
	}
	v := Check(History{Runs: []Run{idleRun("a", Candidate, 0, 100)}, Ops: b.ops}, Limits{})
	require.Equal(t, []Kind{Stale}, kinds(v.Findings))
	require.Equal(t, Shard(3), v.Findings[0].Subject)
	require.Contains(t, v.Findings[0].Text, "by epoch 5")
}

func TestReportAboutAShardLeavesOtherShardsOut(t *testing.T) {
	v := Check(History{Runs: []Run{idleRun("a", Candidate, 0, 300), idleRun("b", Candidate, 0, 300),
		leadingRun("a", 5, newWindow(0, 1), newWindow(99, 100)).ofShard(3), idleRun("a", Unknown, 101, 200).ofShard(3),
		leadingRun("b", 6, newWindow(80, 81), newWindow(200, 201)).ofShard(3),
		leadingRun("b", 9, newWindow(80, 81), newWindow(200, 201)).ofShard(4)}}, Limits{})
	require.Equal(t, "two owners of shard 3: a (p-a) by epoch 5, and b (p-b) by epoch 6", v.Findings[0].Text)
	text := v.String()
	require.Contains(t, text, "a (p-a): serves shard 3 under epoch 5; sampled")
	require.Contains(t, text, "a (p-a): does not serve shard 3; sampled")
	require.Contains(t, text, "b (p-b): does not lead, candidate")
	require.NotContains(t, text, "shard 4")
}
