package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// Settings holds the parameters that stay the same for one member.
type Settings struct {
	Address  string // value of the candidate's key
	Fallback bool   // takes part in fallback
}

// Term is one unbroken term of leadership. The zero value means none.
type Term struct {
	Token  int64 // CreateRevision of the leading key
	Acting bool  // under the acting key, in fallback
}

// Candidacy is a member's part in the election, over all its sessions. It is immutable.
type Candidacy struct {
	cfg      Settings
	standing bool // wants to lead; false for an observer and while stopping
	failed   bool // the election does not work for this member

	// The fields below belong to the present session and start anew with each.
	lease int64
	ttl   time.Duration
	term  Term
	// barred is the newest CreateRevision that never leads again: a term under it has ended, a delete was sent
	// for it, or a read missed it. Revisions only grow, so one number bars all older keys too. A barred key is
	// never adopted; it is deleted.
	barred int64
	// gone is the newest CreateRevision for which etcd has confirmed the deletion. The snapshot may still show
	// the key for a moment.
	gone              int64
	candidateRevision int64 // CreateRevision of the candidate's key that this member stands with, or 0
	actingRevision    int64 // the same for the acting key
	campaign          campaign
	failures          campaignFailures
	requestInFlight   bool      // a request is in flight
	retryAt           time.Time // no request before this time
	failedRequests    int       // number of requests that failed in a row
}

// New returns the candidacy of a member that has no session yet.
func New(cfg Settings, standing bool) Candidacy { return Candidacy{cfg: cfg, standing: standing} }

// OnSession returns the candidacy reset for a new session. It keeps only whether this member stands and whether
// the election has failed.
func (c Candidacy) OnSession(lease int64, ttl time.Duration) Candidacy {
	return Candidacy{cfg: c.cfg, standing: c.standing, failed: c.failed, lease: lease, ttl: ttl}
}

// WantsToLead reports whether this member wants to lead.
func (c Candidacy) WantsToLead() bool { return c.standing }

// ElectionFailed reports whether the election does not work for this member.
func (c Candidacy) ElectionFailed() bool { return c.failed }

// CandidateRevision returns the CreateRevision of the candidate's key that this member stands with, or 0. A renewal's
// read must find that key.
func (c Candidacy) CandidateRevision() int64 { return c.candidateRevision }

// ActingRevision is like CandidateRevision, for the acting key.
func (c Candidacy) ActingRevision() int64 { return c.actingRevision }

// TermKeyGone reports whether the key of the term with that token is gone from etcd, as far as etcd's answers and the
// snapshot show.
func (c Candidacy) TermKeyGone(token int64, s *state.Snapshot) bool {
	if c.gone >= token {
		return true
	}
	if s == nil || s.Revision < token || s.Acting != nil && s.Acting.CreateRevision == token {
		return false
	}
	own, _ := s.CandidateOn(c.lease)
	return own == nil || own.CreateRevision != token
}

// NothingLeft reports whether nothing of this member is left in the election, and nothing is in flight that could
// bring it back.
func (c Candidacy) NothingLeft(s *state.Snapshot) bool {
	if s == nil || c.requestInFlight || c.campaign.running || c.term != (Term{}) || max(s.Revision, c.gone) < c.barred {
		return false
	}
	own, _ := s.CandidateOn(c.lease)
	acting := s.ActingOn(c.lease)
	return (own == nil || own.CreateRevision <= c.gone) && (acting == nil || acting.CreateRevision <= c.gone)
}
