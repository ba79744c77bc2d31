package history

import (
	"fmt"
	"time"
)

// sessionOf is a session of a node.
type sessionOf struct {
	process, node string
	session       int64
}

// sessions are those on which something was claimed, each with when it was seen first.
func (h History) sessions() map[sessionOf]Instant {
	seen := map[sessionOf]Instant{}
	for _, r := range h.Runs {
		if r.Session == 0 {
			continue
		}
		s := sessionOf{r.Process, r.Node, r.Session}
		if at, known := seen[s]; !known || r.First.Before < at {
			seen[s] = r.First.Before
		}
	}
	return seen
}

// overlaps finds the pairs of terms of a subject that surely stood at one instant and do not
// share it, and tells those apart that the limits exempt. The terms are in the order of Begun.
func overlaps(terms []Term, sessions map[sessionOf]Instant, marks []Mark,
	exempt map[string]time.Duration) (found, excused []Finding) {
	for i, x := range terms {
		for _, y := range terms[i+1:] {
			if y.Begun() >= x.Ended() {
				break // as have all that follow
			}
			if !x.surely(y) || x.Shared && y.Shared {
				continue
			}
			f := overlap(x, y)
			if m, ok := excuse(f, sessions, marks, exempt); ok {
				f.Mark = &m
				excused = append(excused, f)
				continue
			}
			found = append(found, f)
		}
	}
	return found, excused
}

// overlap describes one: the older term, by its token, first.
func overlap(x, y Term) Finding {
	if y.Token < x.Token {
		x, y = y, x
	}
	f := Finding{Kind: Overlap, Subject: x.Subject, Terms: []Term{x, y},
		From: max(x.Begun(), y.Begun()), To: min(x.Ended(), y.Ended())}
	if f.From > f.To {
		// One of them was seen once, within the other: at some instant in between.
		f.From, f.To, f.instant = f.To, f.From, true
	}
	f.Text = fmt.Sprintf("%s: %v, and %v", x.Subject.several(), x, y)
	return f
}

// excuse is the mark that exempts an overlap: its name is one that the limits give a bound to and that can
// excuse one about the subject, it was done to the node of the older term while that term can have stood, or the
// session on which it stood, or if it was done to the key alone, while that can have stood: a node can begin to lead
// by a view in which its key stands still. And the overlap lies between it and the bound.
func excuse(f Finding, sessions map[sessionOf]Instant, marks []Mark, exempt map[string]time.Duration) (Mark, bool) {
	older := f.Terms[0]
	since := older.notBefore
	if at, known := sessions[sessionOf{older.Process, older.Node, older.Session}]; known {
		since = min(since, at)
	}
	for _, m := range marks {
		bound, named := exempt[m.Name]
		done := max(m.From, m.To) // an intervention whose end is not known excuses no longer for it
		began := since
		if m.Name == KeyDeleted {
			began = min(began, older.queued)
		}
		if !named || !f.Subject.excused(m.Name) || !m.concerns(older.Node) || done < began {
			continue
		}
		within := m.From <= f.From && f.To <= done.Add(bound)
		if f.instant {
			within = m.From <= f.To && f.From <= done.Add(bound) // it can have been
		}
		if within {
			return m, true
		}
	}
	return Mark{}, false
}
