package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// findSilences finds the nodes that stopped silently: for at least bound, while no mark concerned it, a node
// neither led nor was queued and gave no reason, or had no session. Time counts only while its recorder sampled
// it.
func findSilences(lives [][]Run, marks []Mark, bound time.Duration) []Finding {
	var out []Finding
	for _, runs := range lives {
		var period []Run // idle, without a pause in between
		for i, r := range runs {
			idle := !r.Leads && r.State.isIdle()
			if len(period) > 0 && (!idle || r.First.Before.Sub(runs[i-1].Last.Before) > maxPause) {
				out = append(out, judgeSilence(period, marks, bound)...)
				period = nil
			}
			if idle {
				period = append(period, r)
			}
		}
		if len(period) > 0 {
			out = append(out, judgeSilence(period, marks, bound)...)
		}
	}
	return out
}

// judgeSilence judges one idle period by its longest part in which no mark concerns the node.
func judgeSilence(period []Run, marks []Mark, bound time.Duration) []Finding {
	who, state := period[0].NodeLife, period[len(period)-1].State
	from, to := longestUnmarked(period[0].First.After, period[len(period)-1].Last.Before, marks,
		func(m Mark) bool { return m.concerns(who.Node) })
	if to.Sub(from) < bound {
		return nil
	}
	return []Finding{{Kind: Silent, From: from, To: to, Runs: period,
		Text: fmt.Sprintf("silent stop: %s (%s) is left alone and stays %q", who.Node, who.Process, state)}}
}

// longestUnmarked returns the longest part of the time from a to b in which none of the marks selected by concerns is
// active.
func longestUnmarked(a, b Instant, marks []Mark, concerns func(Mark) bool) (from, to Instant) {
	healthy := func(a, b Instant) {
		if b.Sub(a) > to.Sub(from) {
			from, to = a, b
		}
	}
	marks = slices.Clone(marks)
	slices.SortFunc(marks, func(a, b Mark) int { return cmp.Compare(a.From, b.From) })
	for _, m := range marks {
		if !concerns(m) || m.endInstant() <= a {
			continue
		}
		if m.From >= b {
			break
		}
		healthy(a, m.From)
		a = m.endInstant()
	}
	healthy(a, b)
	return from, to
}
