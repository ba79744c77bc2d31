package history

import (
	"fmt"
	"time"
)

// sessionKey identifies a session of a node.
type sessionKey struct {
	process, node string
	session       int64
}

// firstSeenSessions returns the sessions on which something was claimed, each with the instant it was first seen.
func (h History) firstSeenSessions() map[sessionKey]Instant {
	seen := map[sessionKey]Instant{}
	for _, r := range h.Runs {
		if r.Session == 0 {
			continue
		}
		s := sessionKey{r.Process, r.Node, r.Session}
		if at, known := seen[s]; !known || r.First.Before < at {
			seen[s] = r.First.Before
		}
	}
	return seen
}

// findOverlaps finds the pairs of terms of a subject that certainly existed at one instant and do not share it. It
// returns the exempt pairs separately. The terms are in the order of Begun.
func findOverlaps(terms []Term, sessions map[sessionKey]Instant, marks []Mark,
	exempt map[string]time.Duration) (found, excused []Finding) {
	for i, x := range terms {
		for _, y := range terms[i+1:] {
			if y.Begun() >= x.Ended() {
				break // all that follow have begun even later
			}
			if !x.surelyOverlaps(y) || x.Shared && y.Shared {
				continue
			}
			f := overlapFinding(x, y)
			if m, ok := findExcuse(f, sessions, marks, exempt); ok {
				f.Mark = &m
				excused = append(excused, f)
				continue
			}
			found = append(found, f)
		}
	}
	return found, excused
}

// overlapFinding describes an overlap, with the older term, by token, first.
func overlapFinding(x, y Term) Finding {
	if y.Token < x.Token {
		x, y = y, x
	}
	f := Finding{Kind: Overlap, Subject: x.Subject, Terms: []Term{x, y},
		From: max(x.Begun(), y.Begun()), To: min(x.Ended(), y.Ended())}
	if f.From > f.To {
		// One term was seen only once, within the other: the overlap was at some instant in between.
		f.From, f.To, f.instant = f.To, f.From, true
	}
	f.Text = fmt.Sprintf("%s: %v, and %v", x.Subject.describeOverlap(), x, y)
	return f
}

// findExcuse returns the mark that exempts an overlap. The limits must have a bound for the mark, the mark must be
// able to excuse an overlap about the subject, and it must apply to the node of the older term. The mark must
// end after the older term, or the session it is on, may have begun. A deletion of the key counts from when the
// key may have existed, because a node can begin to lead by a view that still shows its deleted key. The
// overlap must lie between the mark and the bound.
func findExcuse(f Finding, sessions map[sessionKey]Instant, marks []Mark, exempt map[string]time.Duration) (Mark,
	bool) {
	older := f.Terms[0]
	since := older.notBefore
	if at, known := sessions[sessionKey{older.Process, older.Node, older.Session}]; known {
		since = min(since, at)
	}
	for _, m := range marks {
		bound, named := exempt[m.Name]
		done := max(m.From, m.To) // an intervention without a known end gets no longer bound
		began := since
		if m.Name == KeyDeleted {
			began = min(began, older.queued)
		}
		if !named || !f.Subject.isExcusedBy(m.Name) || !m.concerns(older.Node) || done < began {
			continue
		}
		within := m.From <= f.From && f.To <= done.Add(bound)
		if f.instant {
			within = m.From <= f.To && f.From <= done.Add(bound) // it is possible
		}
		if within {
			return m, true
		}
	}
	return Mark{}, false
}
