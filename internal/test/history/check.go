package history

import (
	"cmp"
	"slices"
	"time"
)

// Limits configures the judgement of a history.
type Limits struct {
	// Exempt maps the name of each mark that excuses an overlap, such as LeaseRevoked, to the longest time
	// after the mark that such an overlap may last: the time by which the old leader must have noticed. An
	// overlap is excused if the node of its older term was so marked during that term, and the overlap lies
	// entirely between the mark and the bound. The same holds for an older term that is seen only once the newer
	// one has ended. A mark without an entry excuses nothing.
	Exempt map[string]time.Duration
	// Silent limits the time that a node without a fault in progress may have no session, or no place in the
	// queue if it stands for election. A longer time is a silent stop. The default is 30 s. It must be longer
	// than a node needs to recover.
	Silent time.Duration
	// Unserved limits the time that a shard may have no serving owner while a node that can own shards has a
	// session and no node has a fault in progress. The default is 30 s. A cluster that rightly serves no
	// shards, because all its nodes are excluded or there are too few, needs a mark for that period.
	Unserved time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Silent = cmp.Or(l.Silent, 30*time.Second)
	l.Unserved = cmp.Or(l.Unserved, 30*time.Second)
	return l
}

// Check judges a history. It is a pure function, with one exception: a search for a linear order that takes too
// long is abandoned, and that is a finding of its own. Ten minutes of three nodes are judged in seconds.
func Check(h History, limits Limits) Verdict {
	limits = limits.withDefaults()
	all := h.claimsBySubject()
	v := Verdict{Seen: countSeen(h, all), history: h, pauses: map[Subject][]time.Duration{}}
	if v.Seen.Samples == 0 && v.Seen.Grants == 0 && v.Seen.Attempts == 0 && v.Seen.Calls == 0 {
		v.Findings = append(v.Findings, Finding{Kind: Empty, Text: "no node was sampled: nothing is known"})
	}
	of, e := map[Subject][]Term{}, h.exemptions(limits)
	var shards []subjectClaims
	for _, c := range all {
		for _, check := range []func([]Term, exemptions) (found, exempt []Finding){findOverlaps, checkTokens} {
			found, exempt := check(c.terms, e)
			v.Findings = append(v.Findings, found...)
			v.Exempt = append(v.Exempt, exempt...)
		}
		of[c.subject] = c.terms
		switch {
		case c.subject.hasKind(ofLock):
			v.Findings = append(v.Findings, checkLockOrder(c, h.Marks, limits.Exempt, searchTimeout)...)
			continue
		case c.subject.hasKind(ofShard):
			shards = append(shards, c)
		case c.subject.hasKind(ofObject):
			continue // it is active only when it is called
		}
		v.pauses[c.subject] = pausesBetween(c.terms)
	}
	lead := all[0]
	v.Findings = append(v.Findings, findSilences(lead.lives, h.Marks, limits.Silent)...)
	for _, c := range shards {
		v.Findings = append(v.Findings, findUnserved(c, lead.lives, h.Marks, limits.Unserved)...)
	}
	for _, r := range registersOf(h) {
		v.Findings = append(v.Findings, r.checkWrites(of[r.subject])...)
	}
	v.Findings = append(v.Findings, checkEffects(h)...)
	v.Findings = append(v.Findings, checkObjectOrders(h, limits.Exempt, searchTimeout)...)
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(a.From, b.From) })
	return v
}
