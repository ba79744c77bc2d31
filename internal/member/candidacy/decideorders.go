package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// Input holds the input of a decision.
type Input struct {
	Snapshot    *state.Snapshot
	Now         time.Time
	Valid       bool // the session may be acted on
	Suspected   bool // others may take this member for gone
	WorkRunning bool // functions of the present or the last term run and are waited for
}

// Orders lists the actions that follow from a decision. [Candidacy.CandidateRevision] and [Candidacy.ActingRevision]
// name the keys to protect.
type Orders struct {
	Recovered bool   // the election works again for this member
	EndedTerm Ending // end this term first, if it has a token
	BegunTerm Term   // then begin this term, if it has a token
	Request   Request
	// RecheckAfter is the time after which to decide again even if nothing changes; 0 means never.
	RecheckAfter time.Duration
}

// Decide makes one decision. The caller must carry out the orders before it decides again, but need not wait for
// the request.
func (c Candidacy) Decide(in Input) (Candidacy, Orders) {
	var o Orders
	s := in.Snapshot
	c, o.Recovered = c.noteOwnKeys(s)
	v := view{Candidacy: c, snapshot: s, valid: in.Valid, suspected: in.Suspected,
		retryDue: !in.Now.Before(c.failures.nextTry),
		working:  in.WorkRunning && c.term.Token == 0}
	d := decide(v)
	if c.term.Token != 0 && c.term.Token != d.lead {
		c, o.EndedTerm = c.end(endReason(v), in.Now, s)
		v.Candidacy, v.retryDue, v.working = c, !in.Now.Before(c.failures.nextTry), in.WorkRunning
		d = decide(v)
	}
	if d.lead != 0 && c.term.Token == 0 {
		c.term = Term{Token: d.lead, Acting: d.acting}
		o.BegunTerm = c.term
	}
	if d.action != NoAction && !in.Now.Before(c.retryAt) {
		c, o.Request = c.buildRequest(d, s.Keys, in.Now)
	}
	o.RecheckAfter = c.nextRecheck(in.Now)
	return c, o
}

// noteOwnKeys records the state of the own keys in the snapshot.
func (c Candidacy) noteOwnKeys(s *state.Snapshot) (_ Candidacy, recovered bool) {
	c.actingRevision = 0
	if a := s.ActingOn(c.lease); a != nil && a.CreateRevision > c.barred {
		c.actingRevision = a.CreateRevision
	}
	own, _ := s.CandidateOn(c.lease)
	switch {
	case own == nil || own.CreateRevision <= c.barred:
		c.candidateRevision = 0
	case own.CreateRevision != c.candidateRevision:
		c.candidateRevision = own.CreateRevision
		c.failures = campaignFailures{}
		recovered, c.failed = c.failed, false
	}
	if own == nil && c.campaign.running && !c.campaign.keyMayAppear(s) {
		// Without its key the campaign would wait, or win, in vain.
		c.barred = max(c.barred, c.campaign.joined)
	}
	return c, recovered
}

// nextRecheck returns the time until the next wait ends, or 0 if there is none.
func (c Candidacy) nextRecheck(now time.Time) time.Duration {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	consider(c.retryAt)
	consider(c.failures.nextTry)
	if next.IsZero() {
		return 0
	}
	return next.Sub(now)
}
