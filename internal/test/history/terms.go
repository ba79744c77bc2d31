package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Term is one unbroken period of samples in which a node says that it leads, by the
// same token; that it serves a shard, under the same epoch; or that it holds a lock.
type Term struct {
	Who
	Subject     Subject
	Token       int64
	Session     int64  // on which it led, served a shard, or had an object active
	Shared      bool   // a lock
	First, Last Window // of the samples, by which it surely stood
	Count       int    // of samples

	notBefore Instant // it began after this: the node was seen not to claim it, or not seen at all
	queued    Instant // its key can have stood since then: the node waited in the queue, until it began
	notAfter  Instant // it ended before this, or when the node was seen for the last time
	resumed   bool    // it is the one before, between which and this one the node's session was not valid
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
	switch {
	case t.Token == 0 && t.Subject.is(ofShard):
		return fmt.Sprintf("%s (%s), which claims no epoch", t.Node, t.Process)
	case t.Token == 0:
		return fmt.Sprintf("%s (%s), which claims no term", t.Node, t.Process)
	case t.Shared:
		return fmt.Sprintf("%s (%s) by token %d, shared", t.Node, t.Process, t.Token)
	}
	return fmt.Sprintf("%s (%s) by %s %d", t.Node, t.Process, t.Subject.token(), t.Token) + onSession(t.Session)
}

func onSession(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(" on session %x", id)
}

// terms are all terms of a subject, in the order in which they surely had begun.
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
	open := false   // the last term goes on
	silent := false // since it ended its node had no valid session
	seen := -forever
	waits, queued := false, -forever // in the queue, and since when
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
			out = append(out, Term{Who: r.Who, Subject: r.Subject, Token: r.Token, Session: r.Session, Shared: r.Shared,
				First: r.First, Last: r.Last, Count: r.Count,
				notBefore: seen, queued: queued, notAfter: r.Last.After,
				resumed: silent && out[len(out)-1].Token == r.Token})
			waits = false
		}
		seen = r.Last.Before
	}
	return out
}
