// Package candidate decides about one process's part in one named election: given what it wants and what is known, what
// it is from now on and what is to be done. It is pure: package elections tells it what is known, and does what it
// orders.
//
//	no place ──Enter──► placed ──Begin──► leads ──Lower──► ends ──Abandon──► no place
//
// Who leads and is to stop lowers its flag at once, and gives its place up when what runs in the term has returned, or
// was waited for long enough.
package candidate

import (
	"cmp"
	"errors"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
)

// Why a term ended, beside the reasons that package election has.
var (
	// ErrResigned is why a term ended that was given up.
	ErrResigned = errors.New("it resigned")
	// ErrGaveWay is why a term ended in favour of a candidate that is preferred or was asked
	// for, or because this node's own priority changed.
	ErrGaveWay = errors.New("it gave way to another candidate")
)

// Standing is how far this process has come.
type Standing int8

const (
	None   Standing = iota // it has no place in the queue
	Placed                 // it has, or asked for one
	Leads                  // its place is the first
	Ends                   // its term is over, and what runs in it is waited for
)

// Candidate is this process's part in an election. The zero value only follows, and stands by none. It is a value: what
// is wanted of it and what it sees make another one.
type Candidate struct {
	Standing Standing
	// Stands: it wants to lead.
	Stands bool
	// Priority is what it wants to stand with, Placement what it does.
	Priority, Placement int
	// GiveUp is why the place is to be given up; nil: it is not.
	GiveUp error
	// Gone is why it stands no more though it wants to; nil: it does.
	Gone error
	// Denied: etcd has refused it a moment ago.
	Denied bool
	// Expired: what runs in the term that is over was waited for long enough.
	Expired  bool
	Yielding order.Yielding
}

// Stand has it be a candidate from now on.
func (c Candidate) Stand(priority *int) Candidate {
	if priority != nil {
		c.Priority = *priority
	}
	c.Stands = true
	if !errors.Is(c.Gone, lifecycle.ErrStopped) {
		c.Gone = nil
	}
	return c
}

// Leave has it stand no more, and says why. The first reason stays.
func (c Candidate) Leave(why error) Candidate {
	if c.Gone == nil {
		c.Gone, c.GiveUp = why, why
	}
	return c
}

// Resign has it give its term up and queue again.
func (c Candidate) Resign() Candidate {
	c.GiveUp = ErrResigned
	return c
}

// View is what is known.
type View struct {
	Now time.Time
	// Queue and Requests are those of the election.
	Queue    order.Queue
	Requests []order.Request
	// Place is this process's.
	Place Place
	// Work is how many functions run in its term.
	Work int
	// PreferAfter is how long a preferred candidate stands before others let it pass.
	PreferAfter time.Duration
}

// Place is what is known of this process's place in the queue.
type Place struct {
	Key    string
	Create int64 // of the key; 0: not known yet
	// SessionLost: the session is lost, and the place with it.
	SessionLost bool
	Settled     bool
	// Err is why a settled place did not come first; nil if it did.
	Err error
	// Final: Err is the end of the candidacy.
	Final bool
	// Stands: it came first and may be acted on.
	Stands bool
	// Over is why a place that came first may not be any more; nil while it may.
	Over error
}

// vanished reports whether the watch shows that the place's key is gone.
func (v View) vanished() bool {
	p := v.Place
	return p.Create != 0 && v.Queue.After(p.Create) && !v.Queue.Has(p.Key, p.Create)
}

// Orders are what is to be done.
type Orders struct {
	// Lower ends the term, for that reason: its flag first.
	Lower error
	// Wait for what runs in the term that is over, for as long as that may take.
	Wait bool
	// Cut ends the contexts of what runs in the term that is over: why, or if that is ErrOver, what it ended by.
	Cut error
	// Overdue: what runs in it was waited for in vain.
	Overdue bool
	// Abandon gives the place up.
	Abandon bool
	// Drop forgets a place that is none any more.
	Drop bool
	// Refused is what etcd said to it. Final: for good.
	Refused error
	Final   bool
	// Begin begins a term.
	Begin bool
	// Enter queues, if there is a session.
	Enter bool
	// Again is when to look again although nothing happens; 0: not.
	Again time.Duration
}

// ErrOver as Orders.Cut stands for what the term ended by.
var ErrOver = errors.New("the term is over")

// Look is what it is from now on, and what is to be done.
func (c Candidate) Look(v View) (Candidate, Orders) {
	var o Orders
	if c.Standing != None && c.GiveUp == nil && v.vanished() {
		c.GiveUp = election.ErrKeyLost // the watch may know it long before the session does
	}
	c, o.Again = c.yield(v)
	c = c.end(v, &o)
	if c.Standing == Ends {
		return c, o
	}
	if c.GiveUp != nil {
		if c.Standing != None {
			c.Standing, o.Abandon = None, true
		}
		c.GiveUp = nil
	}
	if c.Standing == Placed {
		c = c.settle(v.Place, &o)
	}
	if c.Standing == None && c.Stands && c.Gone == nil && !c.Denied {
		c.Standing, c.Placement, o.Enter = Placed, c.Priority, true
	}
	return c, o
}

// NotEntered: there was no session to queue on.
func (c Candidate) NotEntered() Candidate {
	c.Standing = None
	return c
}

// Waited: what runs in a term that is over was waited for long enough.
func (c Candidate) Waited() Candidate {
	c.Expired = c.Expired || c.Standing == Ends
	return c
}

// Allowed: etcd may be asked once more.
func (c Candidate) Allowed() Candidate {
	c.Denied = false
	return c
}

// yield has the place given up where others are to pass.
func (c Candidate) yield(v View) (_ Candidate, again time.Duration) {
	if c.Standing == None || c.GiveUp != nil {
		return c, 0
	}
	giveWay := c.Placement != c.Priority
	if !giveWay {
		c.Yielding, giveWay, again = c.Yielding.Look(v.Queue, v.Place.Key, v.Place.Create, v.Requests, v.PreferAfter, v.Now)
	}
	if giveWay {
		c.GiveUp = ErrGaveWay
	}
	return c, again
}

// end ends a term that is over or to be given up, and then the place, when what runs in it has returned or was waited
// for long enough.
func (c Candidate) end(v View, o *Orders) Candidate {
	lost := v.Place.Over
	if c.Standing == Leads && (c.GiveUp != nil || lost != nil) {
		o.Lower = cmp.Or(lost, c.GiveUp)
		o.Wait = true
		if v.Work == 0 || lost != nil || errors.Is(o.Lower, election.ErrKeyLost) {
			o.Cut = ErrOver
		}
		c.Standing, c.Expired = Ends, false
	}
	if c.Standing != Ends {
		return c
	}
	if v.Work > 0 && !c.Expired {
		if o.Cut == nil && v.vanished() { // somebody else may lead already
			o.Cut = election.ErrKeyLost
		}
		return c
	}
	o.Wait, o.Overdue, o.Cut, o.Abandon = false, v.Work > 0, ErrOver, true
	c.Standing, c.Expired = None, false
	return c
}

// settle begins a term if the place has come first, and drops it if it is lost.
func (c Candidate) settle(p Place, o *Orders) Candidate {
	switch {
	case !p.Settled && p.SessionLost:
		c.Standing, o.Drop = None, true
	case !p.Settled:
	case p.Err != nil:
		c.Standing, o.Drop = None, true
		if errors.Is(p.Err, entrystate.ErrAgain) || errors.Is(p.Err, lifecycle.ErrStopped) {
			break
		}
		o.Refused, o.Final = p.Err, p.Final
		if p.Final {
			c.Gone = cmp.Or(c.Gone, p.Err)
		} else {
			c.Denied = true
		}
	case !p.Stands: // over before it began
		c.Standing, o.Abandon = None, true
	default:
		c.Standing, o.Begin = Leads, true
	}
	return c
}

// ReasonOf is why a term ended, in a word; "" if that is none of ours.
func ReasonOf(err error) election.Reason {
	for sentinel, reason := range map[error]election.Reason{
		ErrResigned:           election.ReasonResigned,
		ErrGaveWay:            election.ReasonGaveWay,
		election.ErrWithdrawn: election.ReasonWithdrawn,
		lifecycle.ErrStopped:  election.ReasonStopped,
		election.ErrKeyLost:   election.ReasonKeyLost,
		session.ErrLost:       election.ReasonSessionLost,
	} {
		if errors.Is(err, sentinel) {
			return reason
		}
	}
	return ""
}
