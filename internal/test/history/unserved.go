package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// findUnserved finds the times of at least bound in which no node can have served a shard, although a node that was
// asked about it had a session and no fault was in progress. That a node remains without the shard is not
// recorded repeatedly; its samples of leadership, taken in the same round, show that it was running.
func findUnserved(c subjectClaims, lead [][]Run, marks []Mark, bound time.Duration) []Finding {
	terms := slices.Clone(c.terms)
	slices.SortFunc(terms, func(a, b Term) int {
		return cmp.Compare(a.possibleWindow().Before,
			b.possibleWindow().Before)
	})
	var out []Finding
	for _, w := range sampledWindows(c.lives, lead) {
		var before []Term // the last owner
		gap := func(to Instant) {
			from, to := longestUnmarked(w.Before, to, marks, func(Mark) bool { return true })
			if to.Sub(from) < bound {
				return
			}
			f := Finding{Kind: Unserved, Subject: c.subject, From: from, To: to, Terms: before,
				Text: fmt.Sprintf("nobody serves %v", c.subject)}
			if len(before) > 0 {
				f.Text += fmt.Sprintf(", after %v", before[0])
			}
			out = append(out, f)
		}
		for _, t := range terms {
			p := t.possibleWindow()
			if p.After <= w.Before {
				before = []Term{t}
				continue
			}
			if p.Before >= w.After {
				break
			}
			if p.Before > w.Before {
				gap(p.Before)
			}
			w.Before, before = p.After, []Term{t}
		}
		if w.Before < w.After {
			gap(w.After)
		}
	}
	return out
}

// possibleWindow returns the longest time that the term can have lasted, as far as its node was seen.
func (t Term) possibleWindow() Window {
	if t.notBefore == -forever {
		return Window{t.First.Before, t.notAfter}
	}
	return Window{t.notBefore, t.notAfter}
}

// sampledWindows returns the times in which a node that was asked about a subject was seen with a session. Pauses of
// the sampling separate them.
func sampledWindows(lives, lead [][]Run) []Window {
	asked := map[NodeLife]bool{}
	for _, runs := range lives {
		asked[runs[0].NodeLife] = true
	}
	var seen []Window
	for _, runs := range lead {
		for _, r := range runs {
			if asked[r.NodeLife] && r.State != Stopped && r.State != NoSession {
				seen = append(seen, Window{r.First.After, r.Last.Before})
			}
		}
	}
	slices.SortFunc(seen, func(a, b Window) int { return cmp.Compare(a.Before, b.Before) })
	var out []Window
	for _, w := range seen {
		if n := len(out); n > 0 && w.Before.Sub(out[n-1].After) <= maxPause {
			out[n-1].After = max(out[n-1].After, w.After)
			continue
		}
		out = append(out, w)
	}
	return out
}
