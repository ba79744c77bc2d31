package candidacy

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// Kind is what a request does to the own keys.
type Kind int

// The kinds of requests. Before Join, Leave and Abandon a campaign that is under way
// is cancelled and awaited.
const (
	None         Kind = iota
	Join              // campaign
	Leave             // delete the own candidate's key that was created at Revision
	Abandon           // nothing more: the campaign is not wanted any longer
	Rewrite           // make Change: put the own candidate's key right
	CreateActing      // make Change: become the acting leader
	DeleteActing      // make Change: stop being it
)

// Request is one request to the own keys. Its outcome is reported by Finished.
type Request struct {
	Kind     Kind
	Revision int64 // CreateRevision of the key to delete
	Change   txn.Txn
}

// request makes of the decision what is to be sent.
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

// Finished notes the outcome of a request. hopeless means that the session must be
// given up: a key that may not be deleted goes with its lease only.
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

// Refused counts the requests that failed in a row.
func (c Candidacy) Refused() int { return c.refused }
