package history

import (
	"cmp"
	"slices"
	"time"
)

// Limits say what a history is judged by.
type Limits struct {
	// Exempt names the marks that excuse an overlap, such as LeaseRevoked, and how
	// long after the mark each may last: until the old leader must have noticed. An
	// overlap is excused if its older term's node was so marked in that term, and it
	// lies wholly between the mark and the bound. Without an entry nothing is excused.
	Exempt map[string]time.Duration
	// Silent is how long a node to which nothing is being done may go without a
	// session, or without a place in the queue if it stands for election. Longer is a
	// silent stop. Default 30 s; it must be more than a node needs to come back.
	Silent time.Duration
	// Unserved is how long a shard may have nobody who serves it, while a node that can
	// have shards has a session and no fault stands, at whatever node. Default 30 s. A
	// cluster that rightly has nobody to serve (all its nodes are excluded, or too few)
	// needs a mark.
	Unserved time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Silent == 0 {
		l.Silent = 30 * time.Second
	}
	if l.Unserved == 0 {
		l.Unserved = 30 * time.Second
	}
	return l
}

// Check judges a history. It is a pure function: it reads no clock and keeps nothing,
// except that a search for a linear order that takes too long is given up, which is a
// finding of its own. A recording of ten minutes of three nodes is judged in seconds.
func Check(h History, limits Limits) Verdict {
	limits = limits.withDefaults()
	all := h.claims()
	v := Verdict{Seen: count(h, all), history: h, pauses: map[Subject][]time.Duration{}}
	if v.Seen.Samples == 0 && v.Seen.Grants == 0 && v.Seen.Attempts == 0 && v.Seen.Calls == 0 {
		v.Findings = append(v.Findings, Finding{Kind: Empty, Text: "no node was sampled: nothing is known"})
	}
	of, sessions := map[Subject][]Term{}, h.sessions()
	var shards []claims
	for _, c := range all {
		found, excused := overlaps(c.terms, sessions, h.Marks, limits.Exempt)
		v.Exempt = append(v.Exempt, excused...)
		v.Findings = append(v.Findings, found...)
		v.Findings = append(v.Findings, tokens(c.terms)...)
		of[c.subject] = c.terms
		switch {
		case c.subject.is(ofLock):
			v.Findings = append(v.Findings, lockOrder(c, h.Marks, limits.Exempt, searchTimeout)...)
			continue
		case c.subject.is(ofShard):
			shards = append(shards, c)
		case c.subject.is(ofObject):
			continue // it is active only when it is called
		}
		v.pauses[c.subject] = pauses(c.terms)
	}
	lead := all[0]
	v.Findings = append(v.Findings, silences(lead.lives, h.Marks, limits.Silent)...)
	for _, c := range shards {
		v.Findings = append(v.Findings, unserved(c, lead.lives, h.Marks, limits.Unserved)...)
	}
	for _, r := range registers(h) {
		v.Findings = append(v.Findings, r.check(of[r.subject])...)
	}
	v.Findings = append(v.Findings, effects(h)...)
	v.Findings = append(v.Findings, objectOrders(h, limits.Exempt, searchTimeout)...)
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(a.From, b.From) })
	return v
}
