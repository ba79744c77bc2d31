package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func kinds(findings []Finding) []Kind {
	out := []Kind{}
	for _, f := range findings {
		out = append(out, f.Kind)
	}
	return out
}

func TestOverlapsAndTokensOnlyWhereProven(t *testing.T) {
	a := leadingRun("a", 1, newWindow(0, 1), newWindow(9, 10))
	for name, test := range map[string]struct {
		runs  []Run
		found []Kind
	}{
		"one after the other": {[]Run{a, leadingRun("b", 2, newWindow(11, 12), newWindow(20, 21))}, nil},
		"within":              {[]Run{a, leadingRun("b", 2, newWindow(4, 5), newWindow(6, 7))}, []Kind{Overlap}},
		"seen once within":    {[]Run{a, seenOnce("b", 2, newWindow(5, 6))}, []Kind{Overlap}},
		"crossing":            {[]Run{a, leadingRun("b", 2, newWindow(0, 6), newWindow(12, 13))}, []Kind{Overlap}},
		"may have been before": {[]Run{leadingRun("a", 2, newWindow(0, 1), newWindow(9, 10)),
			seenOnce("b", 1, newWindow(0, 6))}, nil},
		"may have been after":  {[]Run{a, seenOnce("b", 2, newWindow(8, 30))}, nil},
		"crossing, not proven": {[]Run{a, leadingRun("b", 2, newWindow(8, 10), newWindow(20, 21))}, nil},
		"both seen once":       {[]Run{seenOnce("a", 1, newWindow(0, 50)), seenOnce("b", 2, newWindow(10, 20))}, nil},
		"paused": {[]Run{leadingRun("a", 1, newWindow(0, 1), newWindow(2, 100)),
			seenOnce("b", 2, newWindow(50, 51))}, nil},
		"paused, but between": {[]Run{leadingRun("a", 1, newWindow(0, 1), newWindow(99, 100)),
			seenOnce("b", 2, newWindow(50, 51))},
			[]Kind{Overlap}},
		"between two terms": {[]Run{seenOnce("a", 1, newWindow(0, 1)), seenOnce("b", 2, newWindow(5, 6)), seenOnce("a", 3,
			newWindow(9, 10))}, nil},
		"a no in between": {[]Run{seenOnce("a", 1, newWindow(0, 1)), idleRun("a", Candidate, 2, 9),
			seenOnce("a", 3, newWindow(9, 10)),
			seenOnce("b", 2, newWindow(5, 6))}, nil},
		"a change of state is no end": {[]Run{seenOnce("a", 1, newWindow(0, 1)),
			{NodeLife: nodeLife("a"), Leads: true, Token: 1,
				State: Candidate,
				First: newWindow(9, 10), Last: newWindow(9, 10), Count: 1}, seenOnce("b", 2, newWindow(5, 6))}, []Kind{Overlap}},
		"token falls":         {[]Run{seenOnce("a", 5, newWindow(0, 1)), seenOnce("b", 4, newWindow(5, 6))}, []Kind{Token}},
		"token falls at home": {[]Run{seenOnce("a", 5, newWindow(0, 1)), seenOnce("a", 4, newWindow(5, 6))}, []Kind{Token}},
		"token falls, reported once": {[]Run{seenOnce("a", 5, newWindow(0, 1)), seenOnce("b", 6, newWindow(2, 3)),
			seenOnce("c",
				4, newWindow(5, 6))}, []Kind{Token}},
		"token grows, but not enough": {[]Run{seenOnce("a", 9, newWindow(0, 1)), seenOnce("b", 4, newWindow(2, 3)),
			seenOnce("c",
				5, newWindow(5, 6))}, []Kind{Token, Token}},
		"same token": {[]Run{seenOnce("a", 5, newWindow(0, 1)), seenOnce("b", 5, newWindow(5, 6))}, []Kind{Token}},
		"a term that comes back": {[]Run{seenOnce("a", 5, newWindow(0, 1)), idleRun("a", Candidate, 2, 4), seenOnce("a", 5,
			newWindow(5, 6))}, []Kind{Token}},
		"a term that was interrupted": {[]Run{seenOnce("a", 5, newWindow(0, 1)), idleRun("a", NoSession, 2, 4),
			seenOnce("a", 5,
				newWindow(5, 6))}, nil},
		"interrupted and overtaken": {[]Run{seenOnce("a", 5, newWindow(0, 1)), idleRun("a", NoSession, 2, 4), seenOnce("b", 6,
			newWindow(3, 4)), seenOnce("a", 5, newWindow(5, 6))}, []Kind{Token}},
		"no token":     {[]Run{seenOnce("a", 0, newWindow(0, 1))}, []Kind{Token}},
		"nothing seen": {nil, []Kind{Empty}},
	} {
		v := Check(History{Runs: test.runs}, Limits{})
		require.ElementsMatch(t, test.found, kinds(v.Findings), "%s\n%v", name, v)
		require.Empty(t, v.Exempt, name)
	}
}

// TestOldProcessBesideTheNew checks that two lives of one node count as two nodes.
func TestOldProcessBesideTheNew(t *testing.T) {
	old, next := leadingRun("a", 1, newWindow(0, 1), newWindow(9, 10)), seenOnce("a", 2, newWindow(5, 6))
	next.Process = "restarted"
	require.Equal(t, []Kind{Overlap}, kinds(Check(History{Runs: []Run{old, next}}, Limits{}).Findings))
	next.Process, next.Life = old.Process, 1
	require.Equal(t, []Kind{Overlap}, kinds(Check(History{Runs: []Run{old, next}}, Limits{}).Findings))
}

func TestOverlapSaysWhoAndHowLong(t *testing.T) {
	v := Check(History{Runs: []Run{leadingRun("b", 2, newWindow(4, 5), newWindow(30, 31)),
		leadingRun("a", 1, newWindow(0, 1), newWindow(9, 10))}},
		Limits{})
	require.Len(t, v.Findings, 1)
	f := v.Findings[0]
	require.Equal(t, []string{"a", "b"}, []string{f.Terms[0].Node, f.Terms[1].Node}, "the older first")
	require.Equal(t, []int64{1, 2}, []int64{f.Terms[0].Token, f.Terms[1].Token})
	require.Equal(t, []Instant{ms(5), ms(9)}, []Instant{f.From, f.To})
	require.Equal(t, 4*time.Millisecond, f.Length())

	v = Check(History{Runs: []Run{seenOnce("b", 2, newWindow(4, 5)),
		leadingRun("a", 1, newWindow(0, 1), newWindow(9, 10))}}, Limits{})
	require.Equal(t, []Instant{ms(4), ms(5)}, []Instant{v.Findings[0].From, v.Findings[0].To})
	require.Zero(t, v.Findings[0].Length(), "not even an instant of it is known")
}

func TestExemptOverlaps(t *testing.T) {
	runs := []Run{idleRun("a", Candidate, 0, 10), leadingRun("a", 1, newWindow(11, 12), newWindow(99, 100)),
		idleRun("b", Candidate, 0, 70), leadingRun("b", 2, newWindow(80, 81), newWindow(200, 201))} // both from 81 to 99
	limits := Limits{Exempt: map[string]time.Duration{KeyDeleted: 30 * time.Millisecond}}
	for name, test := range map[string]struct {
		mark   Mark
		excuse bool
	}{
		"done just before":        {newMark("a", KeyDeleted, 75, 76), true},
		"done to all":             {newMark("", KeyDeleted, 75, 76), true},
		"not known to have ended": {newMark("a", KeyDeleted, 75, 0), true},
		"ended, much later":       {newMark("a", KeyDeleted, 75, 500), true},
		"to the newer one":        {newMark("b", KeyDeleted, 75, 76), false},
		"another kind":            {newMark("a", LeaseRevoked, 75, 76), false},
		"a fault":                 {newMark("a", "cut off", 75, 76), false},
		"longer than the bound":   {newMark("a", KeyDeleted, 60, 65), false},
		"after it had begun":      {newMark("a", KeyDeleted, 85, 86), false},
		"before the older term":   {newMark("a", KeyDeleted, 5, 6), false},
	} {
		v := Check(History{Runs: runs, Marks: []Mark{test.mark}}, limits)
		if !test.excuse {
			require.Equal(t, []Kind{Overlap}, kinds(v.Findings), name)
			require.Empty(t, v.Exempt, name)
			continue
		}
		require.Empty(t, v.Findings, name)
		require.Len(t, v.Exempt, 1, name)
		require.Equal(t, test.mark, *v.Exempt[0].Mark, name)
		require.Equal(t, 18*time.Millisecond, v.LongestExempt(), name)
	}
	// In the older term, but so long before the overlap that the bound has passed.
	long := Limits{Exempt: map[string]time.Duration{KeyDeleted: time.Second}}
	early := []Mark{newMark("a", KeyDeleted, 5, 6)}
	require.Empty(t, Check(History{Runs: runs, Marks: early}, long).Findings,
		"it waited in the queue, and can have begun before it knew of the mark")
	runs[0].State = Follower
	require.Len(t, Check(History{Runs: runs, Marks: early}, long).Findings, 1, "the term began after the mark")
	runs[0].Last = newWindow(8, 10)
	early[0].To = ms(9)
	require.Empty(t, Check(History{Runs: runs, Marks: early}, long).Findings,
		"the term may have begun before the mark ended")
}

func TestExemptOverlapSeenOnce(t *testing.T) {
	// at some instant
	runs := []Run{leadingRun("a", 1, newWindow(0, 1), newWindow(99, 100)), seenOnce("b", 2, newWindow(40, 60))}
	limits := Limits{Exempt: map[string]time.Duration{KeyDeleted: 10 * time.Millisecond}}
	for done, excused := range map[int]bool{20: false, 29: true, 50: true, 59: true, 70: false} {
		v := Check(History{Runs: runs, Marks: []Mark{newMark("a", KeyDeleted, done, done+1)}}, limits)
		require.Equal(t, excused, v.OK(), "done at %d", done)
	}
}
