package candidacy

import (
	"github.com/goverse/goverse/internal/state"
)

// view holds everything that a decision depends on. Equal views give equal decisions.
type view struct {
	Candidacy
	snapshot  *state.Snapshot
	valid     bool // the session may be acted on
	suspected bool // etcd has yet to confirm that the own keys stand
	retryDue  bool // the pause after a failed campaign is over
	working   bool // work of an ended term still runs
}

// decision is the result of decide: the term to lead by (0 means none) and the action on the own keys.
type decision struct {
	lead     int64
	acting   bool // lead by the acting key
	action   Action
	revision int64 // CreateRevision of the key to act on; ModRevision for RepairKey
}

// decide decides the election for one member. The member leads if and only if this very view allows it. A key
// that should not exist is removed, and a missing one is created. Every fault (a key lost, altered, reappeared,
// or barred) is just another view.
func decide(v view) decision {
	s := v.snapshot
	own, place := s.CandidateOn(v.lease)
	acting := s.ActingOn(v.lease)
	d := decision{}

	keep := own != nil && v.standing && v.keyUsable(own.CreateRevision) && !mustGiveWay(s, place)
	keepActing := acting != nil && entitledToAct(v) && v.keyUsable(acting.CreateRevision)

	// A new term requires that the last one's work has ended and that there is no suspicion; a term in progress
	// does not. A removed member with a delayed watch may first see that it leads, and only then that it was
	// removed.
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
		d.lead, d.acting = acting.CreateRevision, true
	}

	if v.requestInFlight {
		return d
	}
	switch {
	case own != nil && own.CreateRevision <= v.gone, acting != nil && acting.CreateRevision <= v.gone:
		// The snapshot will show the deletion in a moment.
	// The flag is down already; the key is deleted when the work has ended. An acting key is older than any
	// candidate's key beside it and must be deleted first, because gone is a single number.
	case acting != nil && !keepActing:
		if !v.working {
			d.action, d.revision = DeleteActing, acting.CreateRevision
		}
	case own != nil && !keep:
		if !v.working {
			d.action, d.revision = LeaveQueue, own.CreateRevision
		}
	case own != nil && (own.Address != v.cfg.Address || own.Lease != v.lease):
		d.action, d.revision = RepairKey, own.ModRevision
	case own == nil && !v.standing && v.campaign.running:
		d.action = EndCampaign
	case own == nil && v.standing && v.valid && v.retryDue && s.Revision >= v.barred && !v.campaign.keyMayAppear(s):
		d.action = JoinQueue
	case acting == nil && s.Acting == nil && v.valid && !v.working && entitledToAct(v):
		d.action = CreateActing
	}
	return d
}

// keyUsable reports whether a key created at revision is not barred.
func (v view) keyUsable(revision int64) bool { return revision > v.barred }

// entitledToAct reports whether fallback selects this member: the queue is empty, and this member has the
// smallest address of those that are not stopping and for which the election has failed.
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
