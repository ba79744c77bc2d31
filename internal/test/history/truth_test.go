package history

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// trueTerm is one true term, from its first to its last instant, inclusive.
type trueTerm struct {
	node     string
	token    int64
	from, to Instant
}

// sampledRuns returns the runs that a recorder writes of one node with these true terms. The samples follow one
// another, and each is taken at some instant in its window. The time from the Before of one to the After of the
// next is at most reach.
func sampledRuns(r *rand.Rand, node string, truth []trueTerm, end, reach Instant) []Run {
	var out []Run
	var run Run
	for at := Instant(0); at < end; {
		w := Window{Before: at + Instant(r.Int64N(int64(reach/2))) + 1}
		w.After = w.Before + Instant(r.Int64N(int64(reach/2)))
		when := w.Before + Instant(r.Int64N(int64(w.After-w.Before)+1))
		one := Run{NodeLife: nodeLife(node), First: w, Last: w, Count: 1, State: Candidate}
		for _, t := range truth {
			if t.node == node && t.from <= when && when <= t.to {
				one.Leads, one.Token = true, t.token
			}
		}
		before := run
		if !run.extend(one) && before.Count > 0 {
			out = append(out, before)
		}
		at = w.After
	}
	return append(out, run)
}

var nodes = []string{"a", "b", "c", "d"}

// recordedHistory returns the runs of all nodes, each sampled at its own pace.
func recordedHistory(r *rand.Rand, truth []trueTerm, end Instant) (h History, reach map[string]Instant) {
	reach = map[string]Instant{}
	for _, n := range nodes {
		reach[n] = []Instant{ms(1), ms(5), ms(80), ms(500)}[r.IntN(4)]
		h.Runs = append(h.Runs, sampledRuns(r, n, truth, end, reach[n])...)
	}
	return h, reach
}

// drawUpTo draws a time of at most d, with short times as likely as long ones.
func drawUpTo(r *rand.Rand, d Instant) Instant { return Instant(r.Int64N(int64(d>>r.IntN(6)) + 1)) }

// drawTerms draws terms that follow one another, with growing tokens.
func drawTerms(r *rand.Rand) (truth []trueTerm, end Instant) {
	for i := range 1 + r.IntN(12) {
		from := end + 1 + drawUpTo(r, ms(200))
		end = from + drawUpTo(r, ms(2000))
		truth = append(truth, trueTerm{nodes[r.IntN(3)], int64(10*i + 1 + r.IntN(10)), from, end})
	}
	return truth, end + ms(50)
}

// rapidSource returns a source seeded by rapid, which reports the seed. Thousands of samples are not worth shrinking
// one by one.
func rapidSource(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
}

func TestLeadersOneByOneAreNeverFaulted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapidSource(t)
		truth, end := drawTerms(r)
		h, _ := recordedHistory(r, truth, end)
		v := Check(h, Limits{})
		if !v.OK() {
			t.Fatalf("%v\nof %v", v, truth)
		}
	})
}

func TestOverlapsLongerThanTheWindowsAreFound(t *testing.T) {
	found, certain := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := rapidSource(t)
		truth, end := drawTerms(r)
		// One more term begins within one of them, on another node.
		old := truth[r.IntN(len(truth))]
		from := old.from + Instant(r.Int64N(int64(old.to-old.from)+1))
		second := trueTerm{"d", 1000, from, from + drawUpTo(r, ms(2000))}
		truth = append(truth, second)
		h, reach := recordedHistory(r, truth, max(end, second.to+ms(50)))
		length := min(old.to, second.to) - max(old.from, second.from)
		// Each node was asked at least once within its reach, at both ends.
		sure := length > reach[old.node]+reach[second.node]
		overlaps := Check(h, Limits{}).FindingsOf(Overlap)
		if sure {
			certain++
		}
		if sure && len(overlaps) == 0 {
			t.Fatalf("an overlap of %v was not found, with samples every %v", time.Duration(length), reach)
		}
		found += len(overlaps)
		for _, f := range overlaps {
			if !trueOverlap(truth, f) {
				t.Fatalf("%s\nof %v", f.describe(0), truth)
			}
		}
	})
	t.Logf("%d overlaps had to be found, %d were", certain, found)
	require.Positive(t, certain)
}

// trueOverlap reports whether two true terms with these tokens did overlap, for at least as long as the finding
// states.
func trueOverlap(truth []trueTerm, f Finding) bool {
	from, to := -forever, forever
	for _, s := range truth {
		for _, x := range f.Terms {
			if s.token == x.Token && s.node == x.Node {
				from, to = max(from, s.from), min(to, s.to)
			}
		}
	}
	if f.instant {
		return from <= to && from <= f.To && f.From <= to
	}
	return from <= f.From && f.To <= to
}
