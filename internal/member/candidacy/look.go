package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// Seen holds the input of a look.
type Seen struct {
	Snapshot  *state.Snapshot
	Now       time.Time
	Valid     bool // the session may be acted on
	Suspected bool // others may take this member for gone
	Inside    bool // a function runs in the present term
	Working   bool // a function still runs in the last ended term
}

// Orders lists the actions that follow from a look. [Candidacy.Queued] and [Candidacy.Acts] name the keys to
// protect.
type Orders struct {
	Recovered bool   // the election works again for this member
	GaveUp    bool   // stop waiting for the work of the last term
	Ended     Ending // end this term first, if it has a token
	Began     Term   // then begin this term, if it has a token
	Do        Request
	// Again is the time after which to look again even if nothing changes; 0 means never.
	Again time.Duration
}

// Look makes one decision. The caller must carry out the orders before it looks again, but need not wait for
// the request.
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

// note records the state of the own keys in the snapshot.
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
		// Without its key the campaign would wait, or win, in vain.
		c.barred = max(c.barred, c.campaign.joined)
	}
	return c, recovered
}

// nextLook returns the time until the next wait ends, or 0 if there is none.
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
