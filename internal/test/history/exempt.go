package history

import "time"

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

// exemptions decides which violations are exempt.
type exemptions struct {
	sessions map[sessionKey]Instant // when each was first seen
	marks    []Mark
	bounds   map[string]time.Duration // Limits.Exempt
}

func (h History) exemptions(limits Limits) exemptions {
	return exemptions{sessions: h.firstSeenSessions(), marks: h.Marks, bounds: limits.Exempt}
}

// markFor returns the mark that exempts a claim of the older of two terms, by token, between from and to. It returns
// nil if there is none. With instant, the claim was at some instant in between.
//
// The limits must have a bound for the mark, the mark must be able to excuse a violation about the subject, and it
// must apply to the node of the older term. The mark must end after that term, or the session it is on, may have
// begun. A deletion of the key counts from when the key may have existed, because a node can begin to lead by a
// view that still shows its deleted key. The claim must lie between the mark and the bound.
func (e exemptions) markFor(older Term, from, to Instant, instant bool) *Mark {
	since := older.notBefore
	if at, known := e.sessions[sessionKey{older.Process, older.Node, older.Session}]; known {
		since = min(since, at)
	}
	if instant {
		from, to = to, from // it is possible
	}
	for i, m := range e.marks {
		bound, named := e.bounds[m.Name]
		done := max(m.From, m.To) // an intervention without a known end gets no longer bound
		began := since
		if m.Name == KeyDeleted {
			began = min(began, older.queued)
		}
		if !named || !older.Subject.isExcusedBy(m.Name) || !m.concerns(older.Node) || done < began {
			continue
		}
		if m.From <= from && to <= done.Add(bound) {
			return &e.marks[i]
		}
	}
	return nil
}
