package leaderelection

import "github.com/goverse/goverse/cluster/state"

// view is all that a decision depends on. It is a value: two equal views give
// equal decisions, on a node and in a simulation alike.
type view struct {
	snapshot *state.Snapshot
	lease    int64  // the session's
	address  string // what the candidate's key holds
	valid    bool   // the session may be acted on
	standing bool   // wants to lead; false for an observer and while stopping
	fallback bool   // takes part in fallback
	failed   bool   // this member's election failed

	// barred is the newest CreateRevision that is done with: a term ended under
	// it, a delete was sent for it, or a read missed it. Revisions only grow, so
	// one number bars every older key too. A barred key never leads and is never
	// adopted; it is deleted.
	barred int64
	// gone is the newest CreateRevision whose deletion etcd confirmed, though the
	// snapshot may show the key for a moment longer.
	gone int64
	// term is the token of the term that this member leads by now, or 0.
	term int64

	campaign campaignState
	due      bool // the wait after a failed attempt is over
	busy     bool // a write to the own keys is under way
	working  bool // work of a term that ended is still running
}

// campaignState is how far the call of concurrency.Election.Campaign has come.
type campaignState struct {
	running bool
	// joined is the CreateRevision of the key it queues with, 0 before it has one.
	joined int64
}

// waiting reports whether the campaign's key may yet show up in s: also after
// the campaign returned, while the snapshot is behind it.
func (c campaignState) waiting(s *state.Snapshot) bool {
	return s.Revision < c.joined || c.running && c.joined == 0
}

// action is one write to the member's own keys.
type action int

const (
	none         action = iota
	join                // campaign
	leave               // delete the own candidate key at rev
	abandon             // end a campaign that is not wanted any more
	rewrite             // write the own candidate key as it should be
	createActing        // become the acting leader
	deleteActing        // delete the own acting key at rev
)

// decision is what follows from a view: by which term to lead (0: none) and
// what to do about the own keys.
type decision struct {
	lead int64
	mode state.Mode
	do   action
	rev  int64 // CreateRevision of the key to act on; ModRevision for rewrite
}

// decide is the election. A member leads if and only if it may at this very
// view; what it should not have is removed, what it lacks is made. Every fault
// (a key lost, reappeared, altered, a barred one found) is just another view.
func decide(v view) decision {
	s := v.snapshot
	own, place := s.Candidate(v.lease)
	acting := ownActing(v)
	d := decision{mode: state.ModeElection}

	keep := own != nil && v.standing && own.CreateRevision > v.barred && !yields(s, place)
	keepActing := acting != nil && entitledToAct(v) && acting.CreateRevision > v.barred

	// A term that goes on needs no second look at work; a new one does.
	may := func(token int64) bool { return v.valid && (v.term == token || !v.working) }
	switch {
	case keep && place == 0 && s.Acting == nil && may(own.CreateRevision):
		d.lead = own.CreateRevision
	case keepActing && may(acting.CreateRevision):
		d.lead, d.mode = acting.CreateRevision, state.ModeFallback
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
			d.do, d.rev = deleteActing, acting.CreateRevision
		}
	case own != nil && !keep:
		if !v.working {
			d.do, d.rev = leave, own.CreateRevision
		}
	case own != nil && (own.Address != v.address || own.Lease != v.lease):
		d.do, d.rev = rewrite, own.ModRevision
	case own == nil && !v.standing && v.campaign.running:
		d.do = abandon
	case own == nil && v.standing && v.valid && v.due && s.Revision >= v.barred && !v.campaign.waiting(s):
		d.do = join
	case acting == nil && s.Acting == nil && v.valid && !v.working && entitledToAct(v):
		d.do = createActing
	}
	return d
}

// ownActing is the acting key if it is this session's.
func ownActing(v view) *state.Acting {
	if a := v.snapshot.Acting; a != nil && a.Lease == v.lease {
		return a
	}
	return nil
}

// entitledToAct reports whether fallback's rule names this member: the queue is
// empty, its own election failed, and its address is the smallest of the
// members of whom both hold and that stay.
func entitledToAct(v view) bool {
	if !v.fallback || !v.standing || !v.failed || len(v.snapshot.Queue) > 0 {
		return false
	}
	for _, m := range v.snapshot.Members { // sorted by address
		if m.ElectionFailed && !m.Draining {
			return m.Address == v.address && m.Lease == v.lease
		}
	}
	return false
}

// yields reports whether the standing request asks the candidate at place to
// give its place up: the leader on resign; on transfer everybody ahead of the
// target, the leader last.
func yields(s *state.Snapshot, place int) bool {
	r := s.Request
	if r == nil || len(s.Queue) == 0 || s.Queue[0].CreateRevision != r.Token {
		return false
	}
	switch r.Kind {
	case state.RequestResign:
		return place == 0
	case state.RequestTransfer:
		target, err := transferTarget(s, r.Target, r.Incarnation)
		switch {
		case err != nil || target == 0:
			return false
		case place == 0:
			return target == 1
		}
		return place < target
	}
	return false
}

// transferTarget is the place in the queue of the member that leadership is to
// go to, or why it cannot. Incarnation 0 takes whichever is there.
func transferTarget(s *state.Snapshot, address string, incarnation int64) (int, error) {
	m := s.Member(address)
	if m == nil || (incarnation != 0 && m.Incarnation != incarnation) {
		return 0, ErrNotMember
	}
	target := -1
	for i, c := range s.Queue {
		switch owner := s.MemberOf(c); {
		case owner == m:
			target = i
		case owner == nil && target < 0:
			return 0, ErrOutsideBetween
		}
	}
	if target < 0 {
		return 0, ErrNotCandidate
	}
	return target, nil
}
