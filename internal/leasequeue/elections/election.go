package elections

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
)

// deniedRetry is the pause before this node stands again after etcd has refused it.
var deniedRetry = backoff.Policy{First: time.Second, Last: time.Second}

// Election represents this node's part in one election. All methods are safe for concurrent use.
type Election struct {
	elections *Elections
	name      string
	follower  *leasequeue.Follower
	onChange  func()               // calls wake
	term      atomic.Pointer[Term] // nil unless this node leads; written by reconcile

	// Guarded by Elections.mu:

	candidate     candidate.Candidate
	place         *queuePlace // nil means none; written by reconcile
	overdue       termscope.Overdue
	wanted        bool  // requested since Close was called
	observers     int   // calls of Observe minus calls of Unobserve
	standErr      error // reason why the node cannot stand
	subscriptions []*Subscription
	released      bool                    // Close has released the election
	life          context.Context         // ends when the election is closed; made on demand
	endLife       context.CancelCauseFunc // ends life

	recheckTimer *time.Timer // looks again; made on demand, and used by reconcile alone
}

// queuePlace identifies one stay in the queue, from the moment it is planned.
type queuePlace struct {
	entry *leasequeue.Entry // nil: not entered yet, or there was no session
	term  *Term             // nil unless this node leads or led by the entry
}

// Name returns the name of the election.
func (e *Election) Name() string { return e.name }

// IsLeader reports whether this node leads at this instant. It needs no network.
func (e *Election) IsLeader() bool { return e.Term() != nil }

// Term returns the term by which this node leads at this instant, or nil.
func (e *Election) Term() *Term {
	if t := e.term.Load(); t != nil && t.Valid() {
		return t
	}
	return nil
}

// Err returns etcd's error if etcd refused this node's latest attempt to stand, and nil once it leads again.
func (e *Election) Err() error {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	return e.standErr
}

func (e *Election) wake() { e.elections.wakeElection(e) }

// becomeCandidate makes this node a candidate. The caller holds Elections.mu.
func (e *Election) becomeCandidate(o leaderelection.StandOptions) {
	e.wanted = true
	e.candidate = e.candidate.Stand(o.Priority)
}

// addObserver counts an observer. The caller holds Elections.mu.
func (e *Election) addObserver() {
	e.wanted = true
	e.observers++
}

// endCandidacy ends the candidacy for the reason why, and returns the place that this node still has, or nil.
func (e *Election) endCandidacy(why error) *queuePlace {
	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	e.candidate = e.candidate.Withdraw(why)
	e.elections.markDirty(e)
	return e.place
}

// reconcile decides on the present view and carries out the decision. Only Run calls it, one election at a time.
func (e *Election) reconcile() {
	view := e.currentView()
	e.elections.mu.Lock()
	place := e.place
	var t *Term
	if place != nil {
		t = place.term
	}
	view.WorkRunning = t != nil && t.scope.Busy()
	var o candidate.Orders
	e.candidate, o = e.candidate.Decide(view)
	if o.EndReason != nil {
		e.term.Store(nil) // the flag goes down first
		t.scope.End(e.termOverError(t.token, o.EndReason))
	}
	if o.ReleaseEntry || o.DropEntry {
		e.place = nil
	}
	if o.EnterQueue {
		e.place = &queuePlace{}
	}
	said, priority := e.standErr != nil, e.candidate.QueuedPriority
	if o.Refused != nil || o.BeginTerm {
		e.standErr = o.Refused
	}
	e.elections.mu.Unlock()

	e.endTerm(t, o)
	if o.ReleaseEntry {
		place.entry.Release()
	}
	if o.Refused != nil && !o.Final {
		e.scheduleRetry(o.Refused, said)
	}
	if o.BeginTerm {
		e.beginTerm(place)
	}
	var entered *leasequeue.Entry
	if o.EnterQueue {
		entered = e.elections.cfg.Queues.TryEnter(leasequeue.EntrySpec{Name: e.name, Value: e.elections.cfg.Address,
			Priority: priority, Notify: e.onChange})
	}
	e.scheduleRecheck(o.RecheckAfter)

	e.elections.mu.Lock()
	defer e.elections.mu.Unlock()
	switch {
	case entered != nil:
		e.place.entry = entered
	case o.EnterQueue:
		e.place, e.candidate = nil, e.candidate.NotEntered()
	}
	e.notifySubscribers()
}

// currentView returns the known state, apart from the work in the term.
func (e *Election) currentView() candidate.View {
	if e.place == nil {
		return candidate.View{} // the follower may not be set yet: it can notify before the election is registered
	}
	x := e.place.entry
	v := candidate.View{Now: time.Now(), Queue: e.follower.Queue(), Requests: e.pendingRequests(),
		PreferAfter: e.elections.cfg.PreferAfter}
	grant, err := x.Outcome()
	v.Entry = candidate.OwnEntry{Key: x.Key(), CreateRevision: x.Token(), SessionLost: x.SessionContext().Err() != nil,
		Decided: grant != nil || err != nil, Err: err, Final: err != nil && e.elections.cfg.IsFinal(err)}
	if grant != nil {
		v.Entry.EndCause = grant.EndCause()
	}
	return v
}

// endTerm carries out the orders about the entry of a term that is over or ends now.
func (e *Election) endTerm(t *Term, o candidate.Orders) {
	if o.EndReason != nil {
		t.grant.Revoke(e.termOverError(t.token, o.EndReason))
		e.elections.cfg.Logger.Info("no longer leads the election", "election", e.name, "token", t.token, "reason",
			o.EndReason)
	}
	if o.CutOffReason != nil {
		t.scope.CutOff(e.termOverError(t.token, o.CutOffReason))
	}
}

// scheduleRetry logs etcd's refusal, unless said is set because it was logged before, and schedules another attempt.
func (e *Election) scheduleRetry(err error, said bool) {
	if !said {
		e.elections.cfg.Logger.Warn("etcd denied the candidacy, retrying", "election", e.name,
			"error", err)
	}
	time.AfterFunc(deniedRetry.Delay(1, rand.Float64()), func() {
		e.elections.mu.Lock()
		e.candidate = e.candidate.RetryAllowed()
		e.elections.mu.Unlock()
		e.wake()
	})
}

// beginTerm starts a term on a granted entry.
func (e *Election) beginTerm(place *queuePlace) {
	grant, _ := place.entry.Outcome()
	t := &Term{e: e, grant: grant, token: grant.Token(), acquiredAt: time.Now()}
	t.scope = termscope.New(termscope.Owner{Lock: &e.elections.mu, WorkTimeout: e.elections.cfg.WorkTimeout,
		Overdue: &e.overdue, OnIdle: func() { e.elections.markDirty(e) },
		OnOverdue: func(int) {
			e.elections.cfg.Logger.Warn("functions in a term that is over go on; not waiting for them any longer",
				"election", e.name, "token", t.token)
		},
		OverError: func(why error) error { return e.termOverError(t.token, why) },
	}, grant, termscope.EndOf(grant.Period().Context()))
	e.elections.mu.Lock()
	place.term = t
	e.elections.mu.Unlock()
	e.term.Store(t)
	e.elections.cfg.Logger.Info("leads the election", "election", e.name, "token", t.token)
}

// scheduleRecheck makes Run look again after that time, even if nothing changes. 0 means not to.
func (e *Election) scheduleRecheck(after time.Duration) {
	switch {
	case e.recheckTimer == nil && after > 0:
		e.recheckTimer = time.AfterFunc(after, e.wake)
	case after > 0:
		e.recheckTimer.Reset(after)
	case e.recheckTimer != nil:
		e.recheckTimer.Stop()
	}
}

// pendingRequests returns the requests about this election, the oldest first.
func (e *Election) pendingRequests() []order.Request {
	entries := e.follower.Requests()
	if len(entries) == 0 {
		return nil
	}
	out := make([]order.Request, len(entries))
	for i, x := range entries {
		out[i] = order.ParseRequest(x.Value)
	}
	return out
}
