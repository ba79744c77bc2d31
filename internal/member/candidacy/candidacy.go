package candidacy

import (
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/state"
)

// Settings are what stays the same for one member.
type Settings struct {
	Address     string        // what the candidate's key holds
	Fallback    bool          // takes part in fallback
	WorkTimeout time.Duration // how long a new term waits for the work of the last one
}

// Term is one unbroken period of leadership. The zero value is none.
type Term struct {
	Token int64 // CreateRevision of the key that leads
	Mode  election.Mode
}

// Candidacy is a member's part in the election, on one session after the other. It
// is immutable.
type Candidacy struct {
	cfg      Settings
	standing bool      // wants to lead; false for an observer and while stopping
	failed   bool      // the election does not work for this member
	giveUpAt time.Time // when waiting for the work of the last term ends; zero: there is none

	// What follows is about the present session and begins anew with each.
	lease int64
	ttl   time.Duration
	term  Term
	// barred is the newest CreateRevision that is done with: a term ended under
	// it, a delete was sent for it, or a read missed it. Revisions only grow, so
	// one number bars every older key too. A barred key never leads and is never
	// adopted; it is deleted.
	barred int64
	// gone is the newest CreateRevision whose deletion etcd confirmed, though the
	// snapshot may show the key for a moment longer.
	gone     int64
	queued   int64 // CreateRevision of the candidate's key this member stands with, or 0
	acts     int64 // the same of the acting key
	campaign campaign
	failures failures
	busy     bool      // a request is under way
	retryAt  time.Time // no request before
	refused  int       // requests that failed in a row
}

// New is the part of a member that has no session yet.
func New(cfg Settings, standing bool) Candidacy { return Candidacy{cfg: cfg, standing: standing} }

// On is the part on a new session: nothing is carried over but whether this member
// stands, whether the election failed, and the work of the last term.
func (c Candidacy) On(lease int64, ttl time.Duration) Candidacy {
	return Candidacy{cfg: c.cfg, standing: c.standing, failed: c.failed, giveUpAt: c.giveUpAt, lease: lease, ttl: ttl}
}

// Term is the term that this member leads by, if its session is valid.
func (c Candidacy) Term() Term { return c.term }

// Standing reports whether this member wants to lead.
func (c Candidacy) Standing() bool { return c.standing }

// Failed reports whether the election does not work for this member.
func (c Candidacy) Failed() bool { return c.failed }

// Queued is the CreateRevision of the candidate's key that this member stands with,
// 0 without one. A renewal's read must find it.
func (c Candidacy) Queued() int64 { return c.queued }

// Acts is the same for the acting key.
func (c Candidacy) Acts() int64 { return c.acts }

// Over reports whether nothing stands in etcd any more of the term with that token,
// as far as etcd's answers and the snapshot say.
func (c Candidacy) Over(token int64, s *state.Snapshot) bool {
	if c.gone >= token {
		return true
	}
	if s == nil || s.Revision < token || s.Acting != nil && s.Acting.CreateRevision == token {
		return false
	}
	own, _ := s.Candidate(c.lease)
	return own == nil || own.CreateRevision != token
}

// Clear reports whether nothing of this member is left in the election, and nothing
// is under way that could bring it back.
func (c Candidacy) Clear(s *state.Snapshot) bool {
	if s == nil || c.busy || c.campaign.running || c.term != (Term{}) || max(s.Revision, c.gone) < c.barred {
		return false
	}
	own, _ := s.Candidate(c.lease)
	acting := s.ActingOn(c.lease)
	return (own == nil || own.CreateRevision <= c.gone) && (acting == nil || acting.CreateRevision <= c.gone)
}
