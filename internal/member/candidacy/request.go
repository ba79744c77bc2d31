package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// Action is the effect of a request on the own keys.
type Action int

// The kinds of requests. Before JoinQueue, LeaveQueue and EndCampaign the caller cancels a running campaign and waits
// for it.
const (
	NoAction     Action = iota
	JoinQueue           // campaign
	LeaveQueue          // delete the own candidate's key created at Revision
	EndCampaign         // only end the campaign
	RepairKey           // commit Txn, which repairs the own candidate's key
	CreateActing        // commit Txn, which creates the acting key
	DeleteActing        // commit Txn, which deletes the acting key
)

// Request is one request about the own keys. Report its outcome with RequestFinished.
type Request struct {
	Action   Action
	Revision int64 // CreateRevision of the key to delete
	Txn      txn.Txn
}

// buildRequest returns the request for the decision.
func (c Candidacy) buildRequest(d decision, keys state.Keys, now time.Time) (Candidacy, Request) {
	r := Request{Action: d.action}
	switch d.action {
	case LeaveQueue:
		c.barred, c.candidateRevision = max(c.barred, d.revision), 0
		r.Revision = d.revision
	case DeleteActing:
		c.barred, c.actingRevision = max(c.barred, d.revision), 0
		r.Revision, r.Txn = d.revision, txn.DeleteActing(keys, d.revision)
	case RepairKey:
		c.retryAt = now.Add(retryDelay)
		r.Txn = txn.RewriteCandidate(keys, c.lease, c.cfg.Address, d.revision)
	case CreateActing:
		c.retryAt = now.Add(retryDelay)
		r.Txn = txn.CreateActing(keys, c.lease, c.cfg.Address)
	}
	c.requestInFlight = true
	return c, r
}

// RequestFinished records the outcome of a request. hopeless reports that the session must be given up: etcd denies
// the deletion of a key, so the key goes only with its lease.
func (c Candidacy) RequestFinished(r Request, how Outcome, now time.Time) (_ Candidacy, hopeless bool) {
	c.requestInFlight = false
	deletes := r.Action == LeaveQueue || r.Action == DeleteActing
	if how != Succeeded {
		c.failedRequests++
		c.retryAt = now.Add(min(requestRetry.Delay(c.failedRequests, backoff.NoJitter), c.ttl/3))
		return c, how == Denied && deletes
	}
	c.failedRequests = 0
	if deletes {
		c.gone = max(c.gone, r.Revision)
	}
	return c, false
}

// FailedRequests returns the number of requests that failed in a row.
func (c Candidacy) FailedRequests() int { return c.failedRequests }
