package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// Kind is the effect of a request on the own keys.
type Kind int

// The kinds of requests. Before Join, Leave and Abandon the caller cancels a running campaign and waits for it.
const (
	None         Kind = iota
	Join              // campaign
	Leave             // delete the own candidate's key created at Revision
	Abandon           // only end the campaign
	Rewrite           // commit Change, which repairs the own candidate's key
	CreateActing      // commit Change, which creates the acting key
	DeleteActing      // commit Change, which deletes the acting key
)

// Request is one request about the own keys. Report its outcome with Finished.
type Request struct {
	Kind     Kind
	Revision int64 // CreateRevision of the key to delete
	Change   txn.Txn
}

// request returns the request for the decision.
func (c Candidacy) request(d decision, keys state.Keys, now time.Time) (Candidacy, Request) {
	r := Request{Kind: d.do}
	switch d.do {
	case Leave:
		c.barred, c.queued = max(c.barred, d.rev), 0
		r.Revision = d.rev
	case DeleteActing:
		c.barred, c.acts = max(c.barred, d.rev), 0
		r.Revision, r.Change = d.rev, txn.DeleteActing(keys, d.rev)
	case Rewrite:
		c.retryAt = now.Add(retryDelay)
		r.Change = txn.Rewrite(keys, c.lease, c.cfg.Address, d.rev)
	case CreateActing:
		c.retryAt = now.Add(retryDelay)
		r.Change = txn.CreateActing(keys, c.lease, c.cfg.Address)
	}
	c.busy = true
	return c, r
}

// Finished records the outcome of a request. hopeless reports that the session must be given up: etcd denies
// the deletion of a key, so the key goes only with its lease.
func (c Candidacy) Finished(r Request, how Outcome, now time.Time) (_ Candidacy, hopeless bool) {
	c.busy = false
	deletes := r.Kind == Leave || r.Kind == DeleteActing
	if how != Worked {
		c.refused++
		c.retryAt = now.Add(min(requestRetry.Delay(c.refused, backoff.NoJitter), c.ttl/3))
		return c, how == Denied && deletes
	}
	c.refused = 0
	if deletes {
		c.gone = max(c.gone, r.Revision)
	}
	return c, false
}

// Refused returns the number of requests that failed in a row.
func (c Candidacy) Refused() int { return c.refused }
