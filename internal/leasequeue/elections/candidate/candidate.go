// Package candidate decides one process's part in a named election: from the requests and the known state it
// derives the next state and the actions that follow. It is pure: package elections passes in the known state
// and carries out the actions.
//
//	no place ──Enter──► placed ──Begin──► leads ──Lower──► ends ──Abandon──► no place
//
// A leader that must stop lowers its flag at once. It releases its entry when the functions in its term have
// returned or WorkTimeout has passed.
//
// Not promised: freshness. A decision is as good as the view it is based on.
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

// Reasons for the end of a term, beside those of package election.
var (
	// ErrResigned is the reason of a term that ended by Resign.
	ErrResigned = errors.New("it resigned")
	// ErrGaveWay is the reason of a term that ended for a preferred or requested candidate, or because this
	// node's own priority changed.
	ErrGaveWay = errors.New("it gave way to another candidate")
)

// Standing is the progress of this process in the election.
type Standing int8

const (
	None   Standing = iota // no entry in the queue
	Placed                 // has or requested an entry
	Leads                  // its entry is granted
	Ends                   // its term is over, and it waits for the functions in it
)

// Candidate is the state of this process's part in an election. The zero value only follows. It is immutable:
// each request and each view returns a new one.
type Candidate struct {
	Standing Standing
	// Stands is set if the process wants to lead.
	Stands bool
	// Priority is the requested priority, Placement that of the present entry.
	Priority, Placement int
	// GiveUp is the reason why the entry must be released; nil means that it need not be.
	GiveUp error
	// Gone is the reason why the process is no candidate although Stands is set; nil if it is one.
	Gone error
	// Denied is set for a while after etcd has refused the process.
	Denied bool
	// Expired is set when WorkTimeout has passed since the term ended.
	Expired  bool
	Yielding order.Yielding
}

// Stand makes the process a candidate.
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

// Leave ends the candidacy. The first reason stays.
func (c Candidate) Leave(why error) Candidate {
	if c.Gone == nil {
		c.Gone, c.GiveUp = why, why
	}
	return c
}

// Resign makes it end its term and queue again.
func (c Candidate) Resign() Candidate {
	c.GiveUp = ErrResigned
	return c
}

// View holds the known state.
type View struct {
	Now time.Time
	// Queue and Requests hold the entries of the election and the requests about it.
	Queue    order.Queue
	Requests []order.Request
	// Place is this process's entry.
	Place Place
	// Work counts the functions that run in its term.
	Work int
	// PreferAfter is the time that a preferred candidate must stand before others let it pass.
	PreferAfter time.Duration
}

// Place is the known state of this process's entry in the queue.
type Place struct {
	Key    string
	Create int64 // of the key; 0 while unknown
	// SessionLost is set if the session is lost, and the entry with it.
	SessionLost bool
	Settled     bool
	// Err is the reason why a settled entry was not granted; nil if it was.
	Err error
	// Final is set if Err ends the candidacy.
	Final bool
	// Stands is set if the entry was granted and may be acted on.
	Stands bool
	// Over is the reason why a granted entry may no longer be acted on; nil while it may.
	Over error
}

// vanished reports whether the watch shows that the entry's key is gone.
func (v View) vanished() bool {
	p := v.Place
	return p.Create != 0 && v.Queue.After(p.Create) && !v.Queue.Has(p.Key, p.Create)
}

// Orders lists the actions that the caller must carry out.
type Orders struct {
	// Lower ends the term for that reason. Its flag goes down first.
	Lower error
	// Wait starts the limited wait for the functions in the term that is over.
	Wait bool
	// Cut ends the contexts of the functions in the term that is over, with that reason. ErrOver stands for the
	// reason of the term's end.
	Cut error
	// Overdue reports that functions in the term did not return in time.
	Overdue bool
	// Abandon releases the entry.
	Abandon bool
	// Drop forgets an entry that has ended.
	Drop bool
	// Refused is etcd's error for the entry. Final means that it ends the candidacy.
	Refused error
	Final   bool
	// Begin starts a term.
	Begin bool
	// Enter adds an entry if there is a session.
	Enter bool
	// Again is the time after which to look again even if nothing changes; 0 means not to.
	Again time.Duration
}

// ErrOver in Orders.Cut stands for the reason of the term's end.
var ErrOver = errors.New("the term is over")

// Look returns the state that follows from the view, and the actions to carry out.
func (c Candidate) Look(v View) (Candidate, Orders) {
	var o Orders
	if c.Standing != None && c.GiveUp == nil && v.vanished() {
		c.GiveUp = election.ErrKeyLost // the watch may report it long before the session does
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

// NotEntered records that there was no session for an entry.
func (c Candidate) NotEntered() Candidate {
	c.Standing = None
	return c
}

// Waited records that WorkTimeout has passed since the term ended.
func (c Candidate) Waited() Candidate {
	c.Expired = c.Expired || c.Standing == Ends
	return c
}

// Allowed records that etcd may be asked again.
func (c Candidate) Allowed() Candidate {
	c.Denied = false
	return c
}

// yield decides to release the entry if others must pass it.
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

// end ends a term that is over or must end. It releases the entry when the functions in the term have returned
// or WorkTimeout has passed.
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
		if o.Cut == nil && v.vanished() { // another candidate may lead already
			o.Cut = election.ErrKeyLost
		}
		return c
	}
	o.Wait, o.Overdue, o.Cut, o.Abandon = false, v.Work > 0, ErrOver, true
	c.Standing, c.Expired = None, false
	return c
}

// settle starts a term if the entry was granted, and drops a lost one.
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
	case !p.Stands: // over before the term began
		c.Standing, o.Abandon = None, true
	default:
		c.Standing, o.Begin = Leads, true
	}
	return c
}

// ReasonOf returns the reason of a term's end, or "" for an error of another kind.
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
