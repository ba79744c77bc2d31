// Package entrystate decides about one place in a queue: what becomes of it when something happens, and what is to be
// done then. It is pure: package leasequeue tells it what happened and does what it orders.
//
//	what it is about to be            its key in etcd
//	Waiting ─► First                  Asked ─► Stands ─► Leaving ─► Gone
//	  │  ▲ └──► Over                    │        ▲
//	  ▼  │                              ▼        │
//	Clearing ─► Cleared ─► First      Unwanted ──┘ to be deleted at once
//
// The two go together, but not in step: a place can be over while its key is on its way to etcd still, and first
// while etcd has lost its key.
package entrystate

import (
	"errors"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/lifecycle"
)

// Why a place is not first, or not any more.
var (
	// ErrAgain: the place is lost, with the session or out of band; the one that still wants it queues anew.
	ErrAgain = errors.New("the place in the queue is lost")
	// ErrTaken: who only tries does not wait.
	ErrTaken = errors.New("another one is first")
	// ErrKeyGone: the key was deleted out of band.
	ErrKeyGone = election.ErrKeyLost
	// ErrLeft: it was left by the one that had it.
	ErrLeft = errors.New("it was given up")
)

// Claim is how far a place has come to being first.
type Claim int8

const (
	Waiting  Claim = iota // not first yet
	Clearing              // it is; it is being confirmed that nobody counts on being so still
	Cleared               // that is confirmed
	First                 // it is first, or was
	Over                  // it never will be
)

// Key is what is known of a place's key.
type Key int8

const (
	Asked    Key = iota // it is to be created
	Unwanted            // so it is, and then deleted
	Stands              // in etcd
	Leaving             // it is to be deleted
	Gone                // it is deleted, or never was there
)

// Place is what a place is. The zero value was just asked for. It is a value: what happens to it makes another
// one.
type Place struct {
	Claim Claim
	Key   Key
	// Try: it is not to wait.
	Try bool
	// Listed: it waits in its queue, and is notified when it is first.
	Listed bool
	// Create is the CreateRevision of the key; 0: not known yet.
	Create int64
	// Err is why it is over; or why one that came first may not be acted on any more.
	Err error
	// Refused is what etcd said when the key was to be deleted, the last time.
	Refused error
}

// Session is how the session stands that the key is on.
type Session struct {
	// Usable: it may be acted on at this instant.
	Usable bool
	// Fresh: nobody counts on a place that is gone from etcd.
	Fresh bool
}

// Orders are what is to be done.
type Orders struct {
	Settle bool  // notify those who wait for that: it is first, or over
	Notify bool  // have its owner look
	Stop   error // end what is done because it is first, with that cause
	List   bool  // have it notified when it is first
	Unlist bool  // it need not be any more
	Clear  bool  // confirm that nobody counts on being first still
	Delete bool  // the key
	Forget bool  // the key is another one's to use
	Gone   bool  // notify those who wait for the key's end
}

// MayAct reports whether a place came first and nothing but its session's end can keep it from being acted on.
func (p Place) MayAct() bool { return p.Claim == First && p.Err == nil && p.Key == Stands }

// Kept reports whether the key of a place that came first is to stand.
func (p Place) Kept() bool { return p.Claim == First && p.Key == Stands }

// Settled reports whether it is known if the place comes first.
func (p Place) Settled() bool { return p.Claim == First || p.Claim == Over }

// Expected reports whether etcd should have the key.
func (p Place) Expected() bool { return p.Key == Stands && p.Err == nil }

// Same reports whether nothing has changed, but for which errors there are.
func (p Place) Same(as Place) bool {
	return p.Claim == as.Claim && p.Key == as.Key && p.Try == as.Try && p.Listed == as.Listed &&
		p.Create == as.Create && (p.Err == nil) == (as.Err == nil) && (p.Refused == nil) == (as.Refused == nil)
}

// Why is why a place that came first may not be acted on, as far as that is not its session's end; nil if there
// is no reason.
func (p Place) Why() error {
	switch {
	case p.Err != nil:
		return p.Err
	case p.Key != Stands:
		return ErrLeft
	}
	return nil
}

// Created: the key was, at that revision; first in the queue, or not.
func (p Place) Created(create int64, first bool, s Session) (Place, Orders) {
	unwanted := p.Key == Unwanted
	p.Key, p.Create = Stands, create
	if unwanted {
		return p.Abandon()
	}
	if p.Claim != Waiting {
		return p, Orders{}
	}
	var o Orders
	if first {
		p, o = p.AtHead(s)
	} else {
		p, o = p.behind()
	}
	o.Notify = true // the watch may have reported the key before its revision was known here
	return p, o
}

// AtHead: it is first in the queue. Where the session may not be acted on it waits, unless it does not want to.
func (p Place) AtHead(s Session) (Place, Orders) {
	switch {
	case p.Key != Stands || p.Claim != Waiting && p.Claim != Cleared:
		return p, Orders{}
	case !s.Usable:
		return p.behind()
	case p.Claim == Waiting && !s.Fresh:
		p.Claim = Clearing
		return p, Orders{Clear: true}
	}
	p.Claim = First
	o := p.unlist()
	o.Settle, o.Notify = true, true
	return p, o
}

// Confirmed: nobody counts on being first still who was before it; or somebody may.
func (p Place) Confirmed(clear bool, s Session) (Place, Orders) {
	if p.Claim != Clearing {
		return p, Orders{}
	}
	p.Claim = Waiting
	switch {
	case p.Key != Stands:
		return p, Orders{}
	case !clear:
		p.Listed = false // what was new meanwhile was not looked at
		return p.behind()
	}
	p.Claim = Cleared
	return p.AtHead(s)
}

// behind has a place wait, unless it does not want to.
func (p Place) behind() (Place, Orders) {
	if p.Try {
		p, over := p.End(ErrTaken)
		p, left := p.Abandon()
		return p, over.and(left)
	}
	listed := p.Listed
	p.Listed = true
	return p, Orders{List: !listed}
}

// End: it does not come first any more. What is known already stays.
func (p Place) End(err error) (Place, Orders) {
	if p.Settled() {
		return p, Orders{}
	}
	p.Claim, p.Err = Over, err
	o := p.unlist()
	o.Settle, o.Notify = true, true
	return p, o
}

// Revoke: it may not be acted on any more if it came first. The key stands.
func (p Place) Revoke(cause error) (Place, Orders) {
	if !p.MayAct() {
		return p, Orders{}
	}
	p.Err = cause
	return p, Orders{Stop: cause, Notify: true}
}

// Lapse is Revoke by what its session came to, which has ended what stood on it by itself.
func (p Place) Lapse(cause error) Place {
	if p.MayAct() {
		p.Err = cause
	}
	return p
}

// Abandon gives it up, wherever it is.
func (p Place) Abandon() (Place, Orders) {
	switch p.Key {
	case Asked:
		p.Key = Unwanted
		return p, Orders{}
	case Stands:
		p.Key = Leaving
		o := p.unlist()
		o.Stop, o.Delete = ErrLeft, true
		return p, o
	}
	return p, Orders{}
}

// Expel ends what is done in a place that is first, and gives up any other: nobody may go on.
func (p Place) Expel() (Place, Orders) {
	if p.Claim == First {
		return p.Revoke(lifecycle.ErrStopped)
	}
	p, over := p.End(lifecycle.ErrStopped)
	p, left := p.Abandon()
	return p, over.and(left)
}

// Vanished: etcd does not have the key any more, and nobody here has deleted it. The key of a place that came first
// stays its own until it is given up.
func (p Place) Vanished() (Place, Orders) {
	switch {
	case p.Key != Stands:
		return p, Orders{}
	case p.Claim == First:
		return p.Revoke(ErrKeyGone)
	}
	p, over := p.End(ErrAgain)
	p, gone := p.Deleted()
	return p, over.and(gone)
}

// NotCreated: etcd refuses that.
func (p Place) NotCreated(err error) (Place, Orders) {
	p, over := p.End(err)
	p, gone := p.Deleted()
	return p, over.and(gone)
}

// Deleted: the key is.
func (p Place) Deleted() (Place, Orders) {
	o := p.unlist()
	o.Forget, o.Gone = true, true
	p.Key, p.Refused = Gone, nil
	return p, o
}

// NotDeleted: etcd refuses that, for now.
func (p Place) NotDeleted(err error) (Place, Orders) {
	if p.Key != Leaving {
		return p, Orders{}
	}
	p.Refused = err
	return p, Orders{Gone: true}
}

func (p *Place) unlist() Orders {
	listed := p.Listed
	p.Listed = false
	return Orders{Unlist: listed}
}

// and is both, those first.
func (o Orders) and(next Orders) Orders {
	stop := o.Stop
	if stop == nil {
		stop = next.Stop
	}
	return Orders{Settle: o.Settle || next.Settle, Notify: o.Notify || next.Notify, Stop: stop,
		List: o.List || next.List, Unlist: o.Unlist || next.Unlist, Clear: o.Clear || next.Clear,
		Delete: o.Delete || next.Delete, Forget: o.Forget || next.Forget, Gone: o.Gone || next.Gone}
}
