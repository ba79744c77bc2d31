// Package entrystate decides the state of one entry in a queue and the actions that follow from each event. It
// is pure: package leasequeue reports the events and carries out the actions.
//
//	claim: granted or not             key in etcd
//	Waiting ─► First                  Asked ─► Stands ─► Leaving ─► Gone
//	  │  ▲ └──► Over                    │        ▲
//	  ▼  │                              ▼        │
//	Clearing ─► Cleared ─► First      Unwanted ──┘ to be deleted at once
//
// Both change together, but not in step: an entry can be Over while the request that creates its key is in
// flight, and First while etcd has lost its key.
//
// Not promised: validity. Whether a First entry may be acted on also depends on its session.
package entrystate

import (
	"errors"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/lifecycle"
)

// Reasons for which an entry is not granted, or no longer.
var (
	// ErrAgain is returned when the entry is lost with its session or by an out-of-band change. A caller that
	// still wants one must enter again.
	ErrAgain = errors.New("the place in the queue is lost")
	// ErrTaken is returned when an entry with Try is not first.
	ErrTaken = errors.New("another one is first")
	// ErrKeyGone reports that the key was deleted out of band.
	ErrKeyGone = election.ErrKeyLost
	// ErrLeft reports that the holder released the entry.
	ErrLeft = errors.New("it was given up")
)

// Claim is the progress of an entry towards being granted.
type Claim int8

const (
	Waiting  Claim = iota // not granted yet
	Clearing              // first, but a former holder may still rely on its entry
	Cleared               // first, and it is confirmed that none does
	First                 // granted, now or before
	Over                  // never granted
)

// Key is the known state of an entry's key.
type Key int8

const (
	Asked    Key = iota // to be created
	Unwanted            // to be created, and then deleted
	Stands              // exists in etcd
	Leaving             // to be deleted
	Gone                // deleted, or never created
)

// State is the state of one entry. The zero value was just requested. It is immutable: each event returns a new
// one.
type State struct {
	Claim Claim
	Key   Key
	// Try makes the entry fail instead of waiting.
	Try bool
	// Listed is set while the entry waits in its queue, to be notified when it is first.
	Listed bool
	// Create is the CreateRevision of the key; 0 while unknown.
	Create int64
	// Err is the reason why the entry is Over, or why a granted one may no longer be acted on.
	Err error
	// Refused is etcd's error when it last refused to delete the key.
	Refused error
}

// Session is the state of the entry's session.
type Session struct {
	// Usable is set if the session may be acted on at this instant.
	Usable bool
	// Fresh is set if it is certain that no former holder relies on a key that is gone.
	Fresh bool
}

// Orders lists the actions that the caller must carry out.
type Orders struct {
	Settle bool  // wake all that wait for the entry to settle
	Notify bool  // notify the owner
	Stop   error // end the contexts of the grant, with this cause
	List   bool  // register for a notification when the entry is first
	Unlist bool  // undo List
	Clear  bool  // confirm that no former holder relies on its entry
	Delete bool  // delete the key
	Forget bool  // the key may be reused
	Gone   bool  // wake all that wait for the key's end
}

// MayAct reports whether the entry is granted and only the end of its session can keep it from being acted on.
func (p State) MayAct() bool { return p.Claim == First && p.Err == nil && p.Key == Stands }

// Kept reports whether the key of a granted entry must still exist.
func (p State) Kept() bool { return p.Claim == First && p.Key == Stands }

// Settled reports whether it is decided if the entry is granted.
func (p State) Settled() bool { return p.Claim == First || p.Claim == Over }

// Expected reports whether the key should be in etcd.
func (p State) Expected() bool { return p.Key == Stands && p.Err == nil }

// Same reports whether nothing differs. Of errors it compares only whether there are any.
func (p State) Same(as State) bool {
	return p.Claim == as.Claim && p.Key == as.Key && p.Try == as.Try && p.Listed == as.Listed &&
		p.Create == as.Create && (p.Err == nil) == (as.Err == nil) && (p.Refused == nil) == (as.Refused == nil)
}

// Why returns the reason why a granted entry may no longer be acted on, apart from the end of its session, or
// nil if there is none.
func (p State) Why() error {
	switch {
	case p.Err != nil:
		return p.Err
	case p.Key != Stands:
		return ErrLeft
	}
	return nil
}

// Created records that the key was created at revision create, and whether it was first in the queue.
func (p State) Created(create int64, first bool, s Session) (State, Orders) {
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

// AtHead records that the entry is first in the queue. If the session may not be acted on, the entry waits, or
// ends if it has Try.
func (p State) AtHead(s Session) (State, Orders) {
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

// Confirmed records whether it is certain that no former holder still relies on its entry.
func (p State) Confirmed(clear bool, s Session) (State, Orders) {
	if p.Claim != Clearing {
		return p, Orders{}
	}
	p.Claim = Waiting
	switch {
	case p.Key != Stands:
		return p, Orders{}
	case !clear:
		p.Listed = false // list it anew, because changes during Clearing were not looked at
		return p.behind()
	}
	p.Claim = Cleared
	return p.AtHead(s)
}

// behind makes the entry wait, or ends it if it has Try.
func (p State) behind() (State, Orders) {
	if p.Try {
		p, over := p.End(ErrTaken)
		p, left := p.Abandon()
		return p, over.and(left)
	}
	listed := p.Listed
	p.Listed = true
	return p, Orders{List: !listed}
}

// End records that the entry will not be granted. A settled entry stays as it is.
func (p State) End(err error) (State, Orders) {
	if p.Settled() {
		return p, Orders{}
	}
	p.Claim, p.Err = Over, err
	o := p.unlist()
	o.Settle, o.Notify = true, true
	return p, o
}

// Revoke ends a grant. The key stays.
func (p State) Revoke(cause error) (State, Orders) {
	if !p.MayAct() {
		return p, Orders{}
	}
	p.Err = cause
	return p, Orders{Stop: cause, Notify: true}
}

// Lapse is like Revoke, but orders nothing: the session has already ended the contexts.
func (p State) Lapse(cause error) State {
	if p.MayAct() {
		p.Err = cause
	}
	return p
}

// Abandon releases the entry in any state.
func (p State) Abandon() (State, Orders) {
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

// Expel revokes a granted entry and releases any other.
func (p State) Expel() (State, Orders) {
	if p.Claim == First {
		return p.Revoke(lifecycle.ErrStopped)
	}
	p, over := p.End(lifecycle.ErrStopped)
	p, left := p.Abandon()
	return p, over.and(left)
}

// Vanished records that the key is missing in etcd though this process did not delete it. A granted entry keeps
// its key until it is abandoned.
func (p State) Vanished() (State, Orders) {
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

// NotCreated records that etcd refused to create the key.
func (p State) NotCreated(err error) (State, Orders) {
	p, over := p.End(err)
	p, gone := p.Deleted()
	return p, over.and(gone)
}

// Deleted records that the key was deleted.
func (p State) Deleted() (State, Orders) {
	o := p.unlist()
	o.Forget, o.Gone = true, true
	p.Key, p.Refused = Gone, nil
	return p, o
}

// NotDeleted records that etcd refused to delete the key for now.
func (p State) NotDeleted(err error) (State, Orders) {
	if p.Key != Leaving {
		return p, Orders{}
	}
	p.Refused = err
	return p, Orders{Gone: true}
}

func (p *State) unlist() Orders {
	listed := p.Listed
	p.Listed = false
	return Orders{Unlist: listed}
}

// and returns both orders in one. The first Stop wins.
func (o Orders) and(next Orders) Orders {
	stop := o.Stop
	if stop == nil {
		stop = next.Stop
	}
	return Orders{Settle: o.Settle || next.Settle, Notify: o.Notify || next.Notify, Stop: stop,
		List: o.List || next.List, Unlist: o.Unlist || next.Unlist, Clear: o.Clear || next.Clear,
		Delete: o.Delete || next.Delete, Forget: o.Forget || next.Forget, Gone: o.Gone || next.Gone}
}
