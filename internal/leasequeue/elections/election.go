package elections

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
	"github.com/goverse/goverse/internal/leasequeue/order"
)

// deniedRetry is the pause before this node stands again after etcd has refused it.
var deniedRetry = backoff.Policy{First: time.Second, Last: time.Second}

// Election represents this node's part in one election. All methods are safe for concurrent use.
type Election struct {
	all      *Elections
	name     string
	follower *leasequeue.Follower
	notice   func()               // calls touch
	term     atomic.Pointer[Term] // nil unless this node leads; written by look

	// Guarded by Elections.mu:

	candidate candidate.Candidate
	place     *placing // nil means none; written by look
	over      *Term    // ended term in which functions still run
	wanted    bool     // requested since Close was called
	observers int      // calls of Observe minus calls of Unfollow
	err       error    // reason why the node cannot stand
	subs      []*Subscription
	released  bool                    // Close has released the election
	life      context.Context         // ends when the election is closed; made on demand
	end       context.CancelCauseFunc // cancels life

	// Used by look alone:

	later *time.Timer // looks again; made on demand
	late  *time.Timer // limits the wait for functions of a term that is over
}

// placing identifies one stay in the queue, from the moment it is planned.
type placing struct {
	entry *leasequeue.Entry // nil: not entered yet, or there was no session
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
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	return e.err
}

func (e *Election) touch() { e.all.touch(e) }

// stand makes this node a candidate. The caller holds Elections.mu.
func (e *Election) stand(o election.StandOptions) {
	e.wanted = true
	e.candidate = e.candidate.Stand(o.Priority)
}

// observe counts an observer. The caller holds Elections.mu.
func (e *Election) observe() {
	e.wanted = true
	e.observers++
}

// withdraw ends the candidacy for the reason why, and returns the place that this node still has, or nil.
func (e *Election) withdraw(why error) *placing {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	e.candidate = e.candidate.Leave(why)
	e.all.mark(e)
	return e.place
}

// look decides on the present view and carries out the decision. Only Run calls it, one election at a time.
func (e *Election) look() {
	view := e.view()
	e.all.mu.Lock()
	place := e.place
	t := e.term.Load()
	if t == nil {
		t = e.over
	}
	if t != nil {
		view.Work = t.work
	}
	var o candidate.Orders
	e.candidate, o = e.candidate.Look(view)
	if o.Lower != nil {
		e.term.Store(nil) // the flag goes down first
		e.over = t
	}
	if o.Abandon || o.Drop {
		e.place, e.over = nil, nil
	}
	if o.Enter {
		e.place = &placing{}
	}
	said, priority := e.err != nil, e.candidate.Placement
	if o.Refused != nil || o.Begin {
		e.err = o.Refused
	}
	e.all.mu.Unlock()

	e.endTerm(t, o)
	if o.Abandon {
		place.entry.Abandon()
	}
	if o.Refused != nil && !o.Final {
		e.denied(o.Refused, said)
	}
	if o.Begin {
		e.begin(place.entry)
	}
	var entered *leasequeue.Entry
	if o.Enter {
		entered = e.all.cfg.Queues.TryEnter(leasequeue.Want{Name: e.name, Value: e.all.cfg.Address,
			Priority: priority, Notify: e.notice})
	}
	e.lookAgain(o.Again)

	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	switch {
	case entered != nil:
		e.place.entry = entered
	case o.Enter:
		e.place, e.candidate = nil, e.candidate.NotEntered()
	}
	e.notify()
}

// view returns the known state, apart from the work in the term.
func (e *Election) view() candidate.View {
	if e.place == nil {
		return candidate.View{} // the follower may not be set yet: it can notify before the election is registered
	}
	x := e.place.entry
	v := candidate.View{Now: time.Now(), Queue: e.follower.Queue(), Requests: e.asked(),
		PreferAfter: e.all.cfg.PreferAfter}
	v.Place = candidate.Place{Key: x.Key(), Create: x.Token(), SessionLost: x.Session().Err() != nil,
		Settled: x.IsSettled()}
	if !v.Place.Settled {
		return v
	}
	if v.Place.Err = x.Err(); v.Place.Err != nil {
		v.Place.Final = e.all.cfg.Final(v.Place.Err)
		return v
	}
	v.Place.Stands, v.Place.Over = x.Stands(), x.Over()
	return v
}

// endTerm carries out the orders about a term that is over or ends now.
func (e *Election) endTerm(t *Term, o candidate.Orders) {
	var over error
	if o.Lower != nil {
		over = e.termOver(t.token, o.Lower)
		t.place.Revoke(over)
		e.all.cfg.Logger.Info("no longer leads the election", "election", e.name, "token", t.token, "reason", o.Lower)
	}
	if o.Wait {
		e.late = time.AfterFunc(e.all.cfg.WorkTimeout, func() { e.waited(t) })
	}
	if o.Overdue {
		e.all.cfg.Logger.Warn("functions in a term that is over go on; not waiting for them any longer", "election", e.name,
			"token", t.token)
	}
	switch {
	case o.Cut == nil:
	case !errors.Is(o.Cut, candidate.ErrOver):
		t.cut(e.termOver(t.token, o.Cut))
	case over != nil:
		t.cut(over)
	default:
		t.cut(t.place.Over())
	}
	if o.Abandon && e.late != nil {
		e.late.Stop()
		e.late = nil
	}
}

// waited records that WorkTimeout has passed since the term ended.
func (e *Election) waited(t *Term) {
	e.all.mu.Lock()
	if e.over == t {
		e.candidate = e.candidate.Waited()
	}
	e.all.mu.Unlock()
	e.touch()
}

// denied logs etcd's refusal, unless said is set because it was logged before, and schedules another attempt.
func (e *Election) denied(err error, said bool) {
	if !said {
		e.all.cfg.Logger.Warn("etcd denied the candidacy, retrying", "election", e.name,
			"error", err)
	}
	time.AfterFunc(deniedRetry.Delay(1, rand.Float64()), func() {
		e.all.mu.Lock()
		e.candidate = e.candidate.Allowed()
		e.all.mu.Unlock()
		e.touch()
	})
}

// begin starts a term on a granted entry.
func (e *Election) begin(place *leasequeue.Entry) {
	t := &Term{e: e, place: place, token: place.Token(), acquired: time.Now()}
	t.tail, t.cut = context.WithCancelCause(place.Period())
	e.term.Store(t)
	e.all.cfg.Logger.Info("leads the election", "election", e.name, "token", t.token)
}

// lookAgain makes Run look again after that time, even if nothing changes. 0 means not to.
func (e *Election) lookAgain(after time.Duration) {
	switch {
	case e.later == nil && after > 0:
		e.later = time.AfterFunc(after, e.touch)
	case after > 0:
		e.later.Reset(after)
	case e.later != nil:
		e.later.Stop()
	}
}

// asked returns the requests about this election, the oldest first.
func (e *Election) asked() []order.Request {
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
