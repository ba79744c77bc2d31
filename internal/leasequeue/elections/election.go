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

// deniedRetry is how long to wait before this node queues again when etcd has refused it.
var deniedRetry = backoff.Policy{First: time.Second, Last: time.Second}

// Election is this node's part in one election. All methods are safe for concurrent use.
type Election struct {
	all      *Elections
	name     string
	follower *leasequeue.Follower
	notice   func()               // touch
	term     atomic.Pointer[Term] // nil unless this node leads; written by the one that looks

	// With the lock of all held:

	candidate candidate.Candidate
	place     *placing // nil: none. Written by the one that looks
	over      *Term    // ended, and its functions have not all returned
	wanted    bool     // asked for since Close was called
	observers int      // calls of Observe that were not taken back
	err       error    // why it cannot stand
	subs      []*Subscription
	released  bool                    // Close has released it
	life      context.Context         // ends when it is closed; made when first needed
	end       context.CancelCauseFunc // of life

	// Of the one that looks:

	later *time.Timer // looks again; made when first needed
	late  *time.Timer // until when functions in a term that is over are waited for
}

// placing is a place in the queue, from when it is to be asked for. It tells one place from the next.
type placing struct {
	entry *leasequeue.Entry // nil: it is not asked for yet, or there was no session for that
}

// Name is the election's.
func (e *Election) Name() string { return e.name }

// IsLeader reports whether this node leads at this instant, without the network.
func (e *Election) IsLeader() bool { return e.Term() != nil }

// Term is the term that this node leads by at this instant, or nil.
func (e *Election) Term() *Term {
	if t := e.term.Load(); t != nil && t.Valid() {
		return t
	}
	return nil
}

// Err is what etcd refused the last time this node was to stand; nil if it has led since.
func (e *Election) Err() error {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	return e.err
}

func (e *Election) touch() { e.all.touch(e) }

// stand has this node be a candidate. The lock is held.
func (e *Election) stand(o election.StandOptions) {
	e.wanted = true
	e.candidate = e.candidate.Stand(o.Priority)
}

// observe has the election followed. The lock is held.
func (e *Election) observe() {
	e.wanted = true
	e.observers++
}

// withdraw has this node stand no more, and returns the place that it has still.
func (e *Election) withdraw(why error) *placing {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	e.candidate = e.candidate.Leave(why)
	e.all.mark(e)
	return e.place
}

// look brings this node's part in line with what is known and requested. One at a time.
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
		e.term.Store(nil) // the flag first
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

// view is what is known, but for the work in the term.
func (e *Election) view() candidate.View {
	if e.place == nil {
		return candidate.View{} // and perhaps no follower yet: it can tell before it is known here
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

// endTerm does what is ordered about a term that is over, or is from now on.
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

// waited: what runs in a term that is over was waited for long enough.
func (e *Election) waited(t *Term) {
	e.all.mu.Lock()
	if e.over == t {
		e.candidate = e.candidate.Waited()
	}
	e.all.mu.Unlock()
	e.touch()
}

// denied has etcd asked once more after a while; said: it has refused before.
func (e *Election) denied(err error, said bool) {
	if !said {
		e.all.cfg.Logger.Warn("etcd refuses that this process stands in the election, retrying", "election", e.name,
			"error", err)
	}
	time.AfterFunc(deniedRetry.Delay(1, rand.Float64()), func() {
		e.all.mu.Lock()
		e.candidate = e.candidate.Allowed()
		e.all.mu.Unlock()
		e.touch()
	})
}

// begin begins a term with a place that came first.
func (e *Election) begin(place *leasequeue.Entry) {
	t := &Term{e: e, place: place, token: place.Token(), acquired: time.Now()}
	t.tail, t.cut = context.WithCancelCause(place.Period())
	e.term.Store(t)
	e.all.cfg.Logger.Info("leads the election", "election", e.name, "token", t.token)
}

// lookAgain has it looked at after that time although nothing happens; 0: not.
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

// asked are the requests about this election, the first made first.
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
