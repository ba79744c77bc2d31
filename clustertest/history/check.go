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
}

func (l Limits) withDefaults() Limits {
	if l.Silent == 0 {
		l.Silent = 30 * time.Second
	}
	return l
}

// Check judges a history. It is a pure function: it reads no clock and keeps nothing,
// except that a search for a linear order that takes too long is given up, which is a
// finding of its own. A recording of ten minutes of three nodes is judged in seconds.
func Check(h History, limits Limits) Verdict {
	limits = limits.withDefaults()
	lives := h.lives()
	terms := terms(lives)
	v := Verdict{Seen: count(h, lives, terms), history: h}
	if v.Seen.Samples == 0 {
		v.Findings = append(v.Findings, Finding{Kind: Empty, Text: "no node was sampled: nothing is known"})
	}
	found, excused := overlaps(terms, h.Marks, limits.Exempt)
	v.Exempt = excused
	v.Findings = append(v.Findings, found...)
	v.Findings = append(v.Findings, tokens(terms)...)
	v.Findings = append(v.Findings, silences(lives, h.Marks, limits.Silent)...)
	for _, r := range registers(h) {
		v.Findings = append(v.Findings, r.check(terms)...)
	}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int { return cmp.Compare(a.From, b.From) })
	return v
}
