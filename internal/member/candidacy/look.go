package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// Seen is what a look is made with.
type Seen struct {
	Snapshot  *state.Snapshot
	Now       time.Time
	Valid     bool // the session may be acted on
	Suspected bool // there is a sign that others may take this member for gone
	Inside    bool // a function runs in the present term
	Working   bool // a function still runs in the term that ended last
}

// Orders are what follows from a look. What to protect is said by [Candidacy.Queued]
// and [Candidacy.Acts].
type Orders struct {
	Recovered bool   // the election works again for this member
	GaveUp    bool   // the work of the last term is not waited for any longer
	Ended     Ending // first, if it has a token
	Began     Term   // then, if it has a token
	Do        Request
	// Again is after which time to look even if nothing happens; 0 is never.
	Again time.Duration
}

// Look decides once. The caller carries the orders out before it looks again, but
// does not wait for the request.
func (c Candidacy) Look(in Seen) (Candidacy, Orders) {
	var o Orders
	s := in.Snapshot
	c, o.Recovered = c.note(s)
	working := in.Working
	if working && !in.Now.Before(c.giveUpAt) {
		working, o.GaveUp = false, true
		c.giveUpAt = time.Time{}
	}
	v := view{Candidacy: c, snapshot: s, valid: in.Valid, suspected: in.Suspected, due: !in.Now.Before(c.failures.nextTry),
		working: working}
	d := decide(v)
	if c.term.Token != 0 && c.term.Token != d.lead {
		c, o.Ended = c.end(whyOver(v), in.Now, s)
		working = in.Inside
		v.Candidacy, v.due, v.working = c, !in.Now.Before(c.failures.nextTry), working
		d = decide(v)
	}
	if d.lead != 0 && c.term.Token == 0 {
		c.term = Term{Token: d.lead, Mode: d.mode}
		o.Began = c.term
	}
	if d.do != None && !in.Now.Before(c.retryAt) {
		c, o.Do = c.request(d, s.Keys, in.Now)
	}
	o.Again = c.nextLook(in.Now, working)
	return c, o
}

// note takes note of what the snapshot shows of the own keys.
func (c Candidacy) note(s *state.Snapshot) (_ Candidacy, recovered bool) {
	c.acts = 0
	if a := s.ActingOn(c.lease); a != nil && a.CreateRevision > c.barred {
		c.acts = a.CreateRevision
	}
	own, _ := s.Candidate(c.lease)
	switch {
	case own == nil || own.CreateRevision <= c.barred:
		c.queued = 0
	case own.CreateRevision != c.queued:
		c.queued = own.CreateRevision
		c.failures = failures{}
		recovered, c.failed = c.failed, false
	}
	if own == nil && c.campaign.running && !c.campaign.waiting(s) {
		// The key it queues with is gone: it would wait on, or win, for nothing.
		c.barred = max(c.barred, c.campaign.joined)
	}
	return c, recovered
}

// nextLook is the time to the nearest of the instants at which a wait is over.
func (c Candidacy) nextLook(now time.Time, working bool) time.Duration {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	consider(c.retryAt)
	consider(c.failures.nextTry)
	if working {
		consider(c.giveUpAt)
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(now)
}
