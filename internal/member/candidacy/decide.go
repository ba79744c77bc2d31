package candidacy

import (
	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/state"
)

// view is all that a decision depends on. It is a value: two equal views give
// equal decisions.
type view struct {
	Candidacy
	snapshot  *state.Snapshot
	valid     bool // the session may be acted on
	suspected bool // etcd has yet to confirm that the own keys stand
	due       bool // the wait after a failed campaign is over
	working   bool // work of a term that ended is still running
}

// decision is what follows from a view: by which term to lead (0: none) and
// what to do about the own keys.
type decision struct {
	lead int64
	mode election.Mode
	do   Kind
	rev  int64 // CreateRevision of the key to act on; ModRevision for Rewrite
}

// decide is the election. A member leads if and only if it may at this very
// view; what it should not have is removed, what it lacks is made. Every fault
// (a key lost, reappeared, altered, a barred one found) is just another view.
func decide(v view) decision {
	s := v.snapshot
	own, place := s.Candidate(v.lease)
	acting := s.ActingOn(v.lease)
	d := decision{mode: election.ModeElection}

	keep := own != nil && v.standing && v.usable(own.CreateRevision) && !yields(s, place)
	keepActing := acting != nil && entitledToAct(v) && v.usable(acting.CreateRevision)

	// A term that goes on needs no second look at work and suspicions; a new one does. Who may
	// have been removed can learn from a watch that comes late first that it leads.
	may := func(token int64) bool {
		if v.term.Token == token {
			return v.valid
		}
		return v.valid && !v.working && !v.suspected
	}
	switch {
	case keep && place == 0 && s.Acting == nil && may(own.CreateRevision):
		d.lead = own.CreateRevision
	case keepActing && may(acting.CreateRevision):
		d.lead, d.mode = acting.CreateRevision, election.ModeFallback
	}

	if v.busy {
		return d
	}
	switch {
	case own != nil && own.CreateRevision <= v.gone, acting != nil && acting.CreateRevision <= v.gone:
		// The snapshot will show it in a moment.
	// The flag is down already; the key goes when the work is done. An acting key
	// is older than any candidate's beside it, and goes first: gone is one number.
	case acting != nil && !keepActing:
		if !v.working {
			d.do, d.rev = DeleteActing, acting.CreateRevision
		}
	case own != nil && !keep:
		if !v.working {
			d.do, d.rev = Leave, own.CreateRevision
		}
	case own != nil && (own.Address != v.cfg.Address || own.Lease != v.lease):
		d.do, d.rev = Rewrite, own.ModRevision
	case own == nil && !v.standing && v.campaign.running:
		d.do = Abandon
	case own == nil && v.standing && v.valid && v.due && s.Revision >= v.barred && !v.campaign.waiting(s):
		d.do = Join
	case acting == nil && s.Acting == nil && v.valid && !v.working && entitledToAct(v):
		d.do = CreateActing
	}
	return d
}

// usable reports whether a key created at revision is not done with.
func (v view) usable(revision int64) bool { return revision > v.barred }

// entitledToAct reports whether fallback's rule names this member: the queue is
// empty, its own election failed, and its address is the smallest of the
// members of whom both hold and that stay.
func entitledToAct(v view) bool {
	if !v.cfg.Fallback || !v.standing || !v.failed || len(v.snapshot.Queue) > 0 {
		return false
	}
	for _, m := range v.snapshot.Members { // sorted by address
		if m.ElectionFailed && !m.Stopping {
			return m.Address == v.cfg.Address && m.Lease == v.lease
		}
	}
	return false
}
