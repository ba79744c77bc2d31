package elections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
)

// deniedRetry is how long to wait before this node queues again when etcd has refused it.
var deniedRetry = backoff.Policy{First: time.Second, Last: time.Second}

// Election is this node's part in one election. All methods are safe for concurrent use.
type Election struct {
	all      *Elections
	name     string
	follower *leasequeue.Follower
	notice   func()               // touch
	term     atomic.Pointer[Term] // nil unless this node leads

	mu        sync.Mutex
	observer  bool
	wanted    bool // asked for since Close was called
	observers int  // calls of Observe that were not taken back
	priority  int
	yielding  order.Yielding
	later     *time.Timer       // looks again; made when first needed
	place     *leasequeue.Entry // in the queue; nil: none
	over      *Term             // ended, and its functions have not all returned
	late      *time.Timer       // until when they are waited for
	expired   bool              // that has passed
	denied    bool              // etcd has refused this node a moment ago
	giveUp    error             // the place is to be given up, and why
	gone      error             // why this node stands no more; nil: it does
	err       error             // why it cannot stand
	subs      []*Subscription
	released  bool                    // Close has released it
	life      context.Context         // ends when it is closed; made when first needed
	end       context.CancelCauseFunc // of life
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
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (e *Election) touch() { e.all.touch(e) }

// look brings this node's part in line with what is known and requested.
func (e *Election) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.notify()
	e.lose()
	e.yield()
	if !e.ended() {
		return
	}
	e.settled()
	if e.place == nil && !e.observer && e.gone == nil && !e.denied {
		e.place = e.all.cfg.Queues.TryEnter(leasequeue.Want{Name: e.name, Value: e.all.cfg.Address, Priority: e.priority,
			Notify: e.notice})
	}
}

// stand has this node be a candidate.
func (e *Election) stand(o election.StandOptions) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = true
	if o.Priority != nil {
		e.priority = *o.Priority
	}
	e.observer = false
	if !errors.Is(e.gone, lifecycle.ErrStopped) {
		e.gone = nil
	}
}

// observe has the election followed.
func (e *Election) observe() {
	e.mu.Lock()
	e.wanted = true
	e.observers++
	e.mu.Unlock()
}

// close: this node stands in nothing any more.
func (e *Election) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone == nil {
		e.gone, e.giveUp = fmt.Errorf("election %q: %w", e.name, lifecycle.ErrStopped), lifecycle.ErrStopped
	}
}

// lose has the place given up whose key is gone: the watch may know it long before the
// session does. The lock is held.
func (e *Election) lose() {
	if e.place == nil || e.giveUp != nil {
		return
	}
	if e.vanished(e.place) {
		e.giveUp = election.ErrKeyLost
	}
}

// vanished reports whether the watch shows that the key of a place is gone.
func (e *Election) vanished(p *leasequeue.Entry) bool {
	q, token := e.follower.Queue(), p.Token()
	return token != 0 && q.After(token) && !q.Has(p.Key(), token)
}

// ended ends a term that is over or to be given up, and then the place in the queue, when its
// functions have returned or were waited for long enough. It reports whether nothing is left
// of it.
func (e *Election) ended() bool {
	if t := e.term.Load(); t != nil && (e.giveUp != nil || t.place.Over() != nil) {
		lost := t.place.Over()
		reason := cmp.Or(lost, e.giveUp)
		e.term.Store(nil) // the flag first
		over := e.termOver(t.token, reason)
		t.place.Revoke(over)
		if t.work == 0 || lost != nil || errors.Is(reason, election.ErrKeyLost) {
			t.cut(over)
		}
		e.over, e.expired = t, false
		e.late = time.AfterFunc(e.all.cfg.WorkTimeout, func() { e.expire(t) })
		e.all.cfg.Logger.Info("no longer leads the election", "election", e.name, "token", t.token, "reason", reason)
	}
	if t := e.over; t != nil {
		if t.work > 0 && !e.expired {
			if e.vanished(t.place) { // while its work was waited for: somebody else may lead already
				t.cut(e.termOver(t.token, election.ErrKeyLost))
			}
			return false
		}
		if t.work > 0 {
			e.all.cfg.Logger.Warn("functions in a term that is over go on; not waiting for them any longer", "election", e.name,
				"token", t.token)
		}
		e.late.Stop()
		t.cut(t.place.Over())
		e.over = nil
		e.abandon()
	}
	if e.giveUp != nil {
		e.abandon()
		e.giveUp = nil
	}
	return true
}

func (e *Election) expire(t *Term) {
	e.mu.Lock()
	e.expired = e.expired || e.over == t
	e.mu.Unlock()
	e.touch()
}

// again: etcd is asked once more.
func (e *Election) again() {
	e.mu.Lock()
	e.denied = false
	e.mu.Unlock()
	e.touch()
}

func (e *Election) abandon() {
	if e.place != nil {
		e.place.Abandon()
		e.place = nil
	}
}

// settled begins a term if the place has come first, and drops it if it is lost.
func (e *Election) settled() {
	if e.place == nil || e.term.Load() != nil {
		return
	}
	select {
	case <-e.place.Settled():
	case <-e.place.Lost():
		e.place = nil
		return
	default:
		return
	}
	place := e.place
	if err := place.Err(); err != nil {
		e.place = nil
		switch {
		case errors.Is(err, leasequeue.ErrAgain), errors.Is(err, lifecycle.ErrStopped):
		case e.all.cfg.Final(err):
			e.err, e.gone = err, cmp.Or(e.gone, fmt.Errorf("election %q: %w", e.name, err))
		default:
			if e.err == nil {
				e.all.cfg.Logger.Warn("etcd refuses that this process stands in the election, retrying", "election", e.name,
					"error", err)
			}
			e.err, e.denied = err, true
			time.AfterFunc(deniedRetry.Delay(1, rand.Float64()), e.again)
		}
		return
	}
	if !place.Stands() {
		e.abandon() // over before it began
		return
	}
	e.err = nil
	t := &Term{e: e, place: place, token: place.Token(), acquired: time.Now()}
	t.tail, t.cut = context.WithCancelCause(place.Period())
	e.term.Store(t)
	e.all.cfg.Logger.Info("leads the election", "election", e.name, "token", t.token)
}
