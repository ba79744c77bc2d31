package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Term is one unbroken stretch of samples in which a node says that it leads, by the
// same token.
type Term struct {
	Who
	Token       int64
	First, Last Window // of the samples, by which it surely stood
	Count       int    // of samples

	notBefore Instant // it began after this: the node was seen not to lead, or not seen at all
}

// Begun is the instant by which the term surely had begun.
func (t Term) Begun() Instant { return t.First.After }

// Ended is the instant before which the term surely had not ended. It is before
// Begun if the term was seen once.
func (t Term) Ended() Instant { return t.Last.Before }

// surely reports whether t and o stood at one instant, whenever in their windows the
// samples were taken: t had begun before o ended, and o before t ended.
func (t Term) surely(o Term) bool { return t.Begun() < o.Ended() && o.Begun() < t.Ended() }

// after reports whether every sample of t was taken after every one of o.
func (t Term) after(o Term) bool { return o.Last.After < t.First.Before }

func (t Term) String() string {
	if t.Token == 0 {
		return fmt.Sprintf("%s (%s), which claims no term", t.Node, t.Process)
	}
	return fmt.Sprintf("%s (%s) by token %d", t.Node, t.Process, t.Token)
}

// terms are all terms, in the order in which they surely had begun.
func terms(lives [][]Run) []Term {
	var out []Term
	for _, runs := range lives {
		out = append(out, termsOf(runs)...)
	}
	slices.SortStableFunc(out, func(a, b Term) int { return cmp.Compare(a.Begun(), b.Begun()) })
	return out
}

// termsOf are the terms of one life of a node, whose runs are given in time order.
func termsOf(runs []Run) []Term {
	var out []Term
	open := false // the last term goes on
	seen := -forever
	for _, r := range runs {
		switch {
		case !r.Leads:
			open = false
		case open && out[len(out)-1].Token == r.Token:
			t := &out[len(out)-1]
			t.Last, t.Count = r.Last, t.Count+r.Count
		default:
			out = append(out, Term{Who: r.Who, Token: r.Token, First: r.First, Last: r.Last, Count: r.Count, notBefore: seen})
			open = true
		}
		seen = r.Last.Before
	}
	return out
}
