package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Term is one unbroken sequence of samples in which a node claims a subject by the same token: it leads, serves
// a shard under one epoch, holds a lock, or has an object active.
type Term struct {
	NodeLife
	Subject     Subject
	Token       int64
	Session     int64  // on which it led, served a shard, or had an object active
	Shared      bool   // of a lock
	First, Last Window // samples by which it certainly existed
	Count       int    // number of samples

	notBefore Instant // it began later: the node was seen without the claim, or not seen at all
	queued    Instant // its key may exist since then: the node waited in the queue until it began
	notAfter  Instant // it ended earlier, or when the node was last seen
	resumed   bool    // it continues the term before, after the node's session was not valid in between
}

// Begun returns the instant by which the term had certainly begun.
func (t Term) Begun() Instant { return t.First.After }

// Ended returns the instant before which the term had certainly not ended. It is before Begun if the term was
// seen once.
func (t Term) Ended() Instant { return t.Last.Before }

// surelyOverlaps reports whether t and o certainly existed at one instant, for every choice of the sampled instants: t
// had begun before o ended, and o before t ended.
func (t Term) surelyOverlaps(o Term) bool { return t.Begun() < o.Ended() && o.Begun() < t.Ended() }

// startsAfter reports whether every sample of t was taken after every sample of o.
func (t Term) startsAfter(o Term) bool { return o.Last.After < t.First.Before }

func (t Term) String() string {
	switch {
	case t.Token == 0 && t.Subject.hasKind(ofShard):
		return fmt.Sprintf("%s (%s), which claims no epoch", t.Node, t.Process)
	case t.Token == 0:
		return fmt.Sprintf("%s (%s), which claims no term", t.Node, t.Process)
	case t.Shared:
		return fmt.Sprintf("%s (%s) by token %d, shared", t.Node, t.Process, t.Token)
	}
	return fmt.Sprintf("%s (%s) by %s %d", t.Node, t.Process, t.Subject.tokenName(), t.Token) + onSession(t.Session)
}

func onSession(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(" on session %x", id)
}

// termsOfLives returns all terms of a subject in the order of Begun.
func termsOfLives(lives [][]Run) []Term {
	var out []Term
	for _, runs := range lives {
		out = append(out, termsOf(runs)...)
	}
	slices.SortStableFunc(out, func(a, b Term) int { return cmp.Compare(a.Begun(), b.Begun()) })
	return out
}

// termsOf returns the terms of one life of a node from its runs in time order.
func termsOf(runs []Run) []Term {
	var out []Term
	open := false   // the last term continues
	silent := false // the node had no valid session since that term ended
	seen := -forever
	waits, queued := false, -forever // whether the node waits in the queue, and since when
	for _, r := range runs {
		switch {
		case !r.Leads && r.State == Candidate && !waits:
			waits, queued = true, r.First.Before
		case !r.Leads && r.State != Candidate:
			waits = false
		}
		goesOn := open && r.Leads && out[len(out)-1].Token == r.Token && out[len(out)-1].Session == r.Session
		if open && !goesOn {
			out[len(out)-1].notAfter = r.First.After
		}
		if !r.Leads {
			silent = len(out) > 0 && (open || silent) && r.State == NoSession
		}
		open = r.Leads
		switch {
		case goesOn:
			t := &out[len(out)-1]
			t.Last, t.notAfter, t.Count = r.Last, r.Last.After, t.Count+r.Count
		case r.Leads:
			if !waits {
				queued = seen
			}
			waits = false // for this term; if it waits again, it is by another key
			out = append(out, Term{NodeLife: r.NodeLife, Subject: r.Subject, Token: r.Token, Session: r.Session,
				Shared: r.Shared, First: r.First, Last: r.Last, Count: r.Count,
				notBefore: seen, queued: queued, notAfter: r.Last.After,
				resumed: silent && out[len(out)-1].Token == r.Token})
			waits = false
		}
		seen = r.Last.Before
	}
	return out
}
