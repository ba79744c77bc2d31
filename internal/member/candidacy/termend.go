package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// requeueDelay lets the next leader take over before the one that gave way queues again, because that write is
// sent to every node too.
const requeueDelay = 50 * time.Millisecond

// Reason is the reason for the end of a term; see the constants of the same names in package leaderelection.
type Reason string

// The reasons.
const (
	ReasonResigned    Reason = "resigned"
	ReasonRequested   Reason = "asked to give way"
	ReasonStopped     Reason = "stopped"
	ReasonKeyLost     Reason = "candidate key lost"
	ReasonSessionLost Reason = "session lost"
	ReasonSuperseded  Reason = "fallback superseded"
)

// Ending describes the end of a term. The zero value means none.
type Ending struct {
	Token   int64
	Reason  Reason
	Request *state.Request // request that ended it, if the reason is Requested
}

// end ends the present term, if there is one, and bars its key.
func (c Candidacy) end(reason Reason, now time.Time, s *state.Snapshot) (Candidacy, Ending) {
	if c.term.Token == 0 {
		return c, Ending{}
	}
	e := Ending{Token: c.term.Token, Reason: reason}
	c.barred = max(c.barred, c.term.Token)
	c.term = Term{}
	if reason == ReasonRequested {
		e.Request = s.Request
	}
	if (reason == ReasonResigned || reason == ReasonRequested) && s != nil && len(s.Queue) > 1 {
		c.failures.nextTry = now.Add(requeueDelay)
	}
	return c, e
}

// endReason returns the reason for which decide ended the term.
func endReason(v view) Reason {
	own, place := v.snapshot.CandidateOn(v.lease)
	switch {
	case !v.valid:
		return ReasonSessionLost
	case !v.standing:
		return ReasonStopped
	case v.term.Acting:
		if a := v.snapshot.Acting; a == nil || a.CreateRevision != v.term.Token {
			return ReasonKeyLost
		}
		return ReasonSuperseded
	case own != nil && own.CreateRevision == v.term.Token && mustGiveWay(v.snapshot, place):
		return ReasonRequested
	}
	return ReasonKeyLost
}

// Resign ends the term. This member then queues again at the tail.
func (c Candidacy) Resign(now time.Time, s *state.Snapshot) (Candidacy, Ending) {
	return c.end(ReasonResigned, now, s)
}

// Withdraw ends the term and the candidacy for good.
func (c Candidacy) Withdraw(now time.Time) (Candidacy, Ending) {
	c.standing = false
	return c.end(ReasonStopped, now, nil)
}

// KeyMissed records that a renewal's read did not find the protected key created at revision. The candidacy or
// term under that key ends, whatever the snapshot shows.
func (c Candidacy) KeyMissed(revision int64, now time.Time) (Candidacy, Ending) {
	return c.endKey(revision, ReasonKeyLost, now)
}

// CampaignCancelled records that a cancelled campaign is about to delete its key, which may be gone at any time from
// then on. stands reports whether the session is not lost.
func (c Candidacy) CampaignCancelled(joined int64, stands bool, now time.Time) (Candidacy, Ending) {
	if stands {
		return c.endKey(joined, ReasonKeyLost, now)
	}
	return c.endKey(joined, ReasonSessionLost, now)
}

func (c Candidacy) endKey(revision int64, reason Reason, now time.Time) (Candidacy, Ending) {
	var e Ending
	if c.term.Token == revision {
		c, e = c.end(reason, now, nil)
	}
	c.barred = max(c.barred, revision)
	return c, e
}

// SessionEnded ends the part on this session. The session is gone, so nothing is left to delete.
func (c Candidacy) SessionEnded(reason Reason, now time.Time) (Candidacy, Ending) {
	c, e := c.end(reason, now, nil)
	return c.OnSession(0, 0), e
}
