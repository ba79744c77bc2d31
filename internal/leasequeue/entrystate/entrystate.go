// Package entrystate decides the state of one entry in a queue and the actions that follow from each event. It
// is pure: package leasequeue reports the events and carries out the actions.
//
//	claim: granted or not             key in etcd
//	Waiting ─► Granted                Requested ─► Exists ─► Deleting ─► Absent
//	  │  ▲ └──► NotGranted              │            ▲
//	  ▼  │                              ▼            │
//	HeldBack ─► Confirmed ─► Granted  Unwanted ──────┘ to be deleted at once
//
// Both change together, but not in step: an entry can be NotGranted while the request that creates its key is in
// flight, and Granted while etcd has lost its key.
//
// Not promised: validity. Whether a Granted entry may be acted on also depends on its session.
package entrystate

import (
	"errors"

	"github.com/goverse/goverse/internal/lifecycle"
)

// Reasons for which an entry is not granted, or no longer.
var (
	// ErrEntryLost is returned when the entry is lost with its session or by an out-of-band change. A caller that
	// still wants one must enter again.
	ErrEntryLost = errors.New("the queue entry is lost")
	// ErrNotFirst is returned when an entry with Try is not first.
	ErrNotFirst = errors.New("another entry is first")
	// ErrKeyLost reports that the key was deleted out of band.
	ErrKeyLost = lifecycle.ErrKeyLost
	// ErrReleased reports that the holder released the entry.
	ErrReleased = errors.New("it was released")
)

// Claim is the progress of an entry towards being granted.
type Claim int8

const (
	Waiting    Claim = iota // not granted yet
	HeldBack                // first, but a former holder may still rely on its entry
	Confirmed               // first, and it is confirmed that none does
	Granted                 // granted, now or before
	NotGranted              // never granted
)

// KeyState is the known state of an entry's key.
type KeyState int8

const (
	Requested KeyState = iota // to be created
	Unwanted                  // to be created, and then deleted
	Exists                    // exists in etcd
	Deleting                  // to be deleted
	Absent                    // deleted, or never created
)

// State is the state of one entry. The zero value was just requested. It is immutable: each event returns a new
// one.
type State struct {
	Claim Claim
	Key   KeyState
	// Try makes the entry fail instead of waiting.
	Try bool
	// Registered is set while the entry waits in its queue, to be notified when it is first.
	Registered bool
	// CreateRevision is the CreateRevision of the key; 0 while unknown.
	CreateRevision int64
	// Err is the reason why the entry is NotGranted, or why a granted one may no longer be acted on.
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
	CloseDecided     bool  // wake all that wait until the entry is decided
	NotifyOwner      bool  // notify the owner
	StopCause        error // end the contexts of the grant, with this cause
	RegisterWaiter   bool  // register for a notification when the entry is first
	UnregisterWaiter bool  // undo RegisterWaiter
	HoldBack         bool  // confirm that no former holder relies on its entry
	DeleteKey        bool  // delete the key
	ForgetKey        bool  // the key may be reused
	CloseGone        bool  // wake all that wait for the key's end
}

// Decided reports whether it is decided if the entry is granted.
func (p State) Decided() bool { return p.Claim == Granted || p.Claim == NotGranted }

// KeyExpected reports whether the key should be in etcd. The holder of a granted entry may act while it is and the
// session is valid.
func (p State) KeyExpected() bool { return p.Key == Exists && p.Err == nil }

// DeletionAnswered reports whether the key is gone, or etcd has refused to delete it.
func (p State) DeletionAnswered() bool { return p.Key == Absent || p.Refused != nil }

// Equivalent reports whether nothing differs. Of errors it compares only whether there are any.
func (p State) Equivalent(as State) bool {
	return p.Claim == as.Claim && p.Key == as.Key && p.Try == as.Try && p.Registered == as.Registered &&
		p.CreateRevision == as.CreateRevision && (p.Err == nil) == (as.Err == nil) &&
		(p.Refused == nil) == (as.Refused == nil)
}

// EndCause returns the reason why a granted entry may no longer be acted on, apart from the end of its session, or
// nil if there is none.
func (p State) EndCause() error {
	switch {
	case p.Err != nil:
		return p.Err
	case p.Key != Exists:
		return ErrReleased
	}
	return nil
}

// KeyCreated records that the key was created at revision create, and whether it was first in the queue.
func (p State) KeyCreated(create int64, first bool, s Session) (State, Orders) {
	unwanted := p.Key == Unwanted
	p.Key, p.CreateRevision = Exists, create
	if unwanted {
		return p.Release()
	}
	if p.Claim != Waiting {
		return p, Orders{}
	}
	var o Orders
	if first {
		p, o = p.HeadReached(s)
	} else {
		p, o = p.waitOrFail()
	}
	o.NotifyOwner = true // the watch may have reported the key before its revision was known here
	return p, o
}

// HeadReached records that the entry is first in the queue. If the session may not be acted on, the entry waits, or
// ends if it has Try.
func (p State) HeadReached(s Session) (State, Orders) {
	switch {
	case p.Key != Exists || p.Claim != Waiting && p.Claim != Confirmed:
		return p, Orders{}
	case !s.Usable:
		return p.waitOrFail()
	case p.Claim == Waiting && !s.Fresh:
		p.Claim = HeldBack
		return p, Orders{HoldBack: true}
	}
	p.Claim = Granted
	o := p.unregister()
	o.CloseDecided, o.NotifyOwner = true, true
	return p, o
}

// ReleaseConfirmed records whether it is certain that no former holder still relies on its entry.
func (p State) ReleaseConfirmed(clear bool, s Session) (State, Orders) {
	if p.Claim != HeldBack {
		return p, Orders{}
	}
	p.Claim = Waiting
	switch {
	case p.Key != Exists:
		return p, Orders{}
	case !clear:
		p.Registered = false // register it anew, because changes while HeldBack were not looked at
		return p.waitOrFail()
	}
	p.Claim = Confirmed
	return p.HeadReached(s)
}

// waitOrFail makes the entry wait, or ends it if it has Try.
func (p State) waitOrFail() (State, Orders) {
	if p.Try {
		p, over := p.FailGrant(ErrNotFirst)
		p, left := p.Release()
		return p, over.merge(left)
	}
	listed := p.Registered
	p.Registered = true
	return p, Orders{RegisterWaiter: !listed}
}

// FailGrant records that the entry will not be granted. A decided entry stays as it is.
func (p State) FailGrant(err error) (State, Orders) {
	if p.Decided() {
		return p, Orders{}
	}
	p.Claim, p.Err = NotGranted, err
	o := p.unregister()
	o.CloseDecided, o.NotifyOwner = true, true
	return p, o
}

// Revoke ends a grant. The key stays.
func (p State) Revoke(cause error) (State, Orders) {
	if p.Claim != Granted || !p.KeyExpected() {
		return p, Orders{}
	}
	p.Err = cause
	return p, Orders{StopCause: cause, NotifyOwner: true}
}

// Release releases the entry in any state.
func (p State) Release() (State, Orders) {
	switch p.Key {
	case Requested:
		p.Key = Unwanted
		return p, Orders{}
	case Exists:
		p.Key = Deleting
		o := p.unregister()
		o.StopCause, o.DeleteKey = ErrReleased, true
		return p, o
	}
	return p, Orders{}
}

// RevokeOrRelease revokes a granted entry and releases any other.
func (p State) RevokeOrRelease() (State, Orders) {
	if p.Claim == Granted {
		return p.Revoke(lifecycle.ErrStopped)
	}
	p, over := p.FailGrant(lifecycle.ErrStopped)
	p, left := p.Release()
	return p, over.merge(left)
}

// KeyVanished records that the key is missing in etcd though this process did not delete it. A granted entry keeps
// its key until it is released.
func (p State) KeyVanished() (State, Orders) {
	switch {
	case p.Key != Exists:
		return p, Orders{}
	case p.Claim == Granted:
		return p.Revoke(ErrKeyLost)
	}
	p, over := p.FailGrant(ErrEntryLost)
	p, gone := p.KeyDeleted()
	return p, over.merge(gone)
}

// CreationRefused records that etcd refused to create the key.
func (p State) CreationRefused(err error) (State, Orders) {
	p, over := p.FailGrant(err)
	p, gone := p.KeyDeleted()
	return p, over.merge(gone)
}

// KeyDeleted records that the key was deleted.
func (p State) KeyDeleted() (State, Orders) {
	o := p.unregister()
	o.ForgetKey, o.CloseGone = true, true
	p.Key, p.Refused = Absent, nil
	return p, o
}

// DeletionRefused records that etcd refused to delete the key for now.
func (p State) DeletionRefused(err error) (State, Orders) {
	if p.Key != Deleting {
		return p, Orders{}
	}
	p.Refused = err
	return p, Orders{CloseGone: true}
}

func (p *State) unregister() Orders {
	listed := p.Registered
	p.Registered = false
	return Orders{UnregisterWaiter: listed}
}

// merge returns both orders in one. The first StopCause wins.
func (o Orders) merge(next Orders) Orders {
	stop := o.StopCause
	if stop == nil {
		stop = next.StopCause
	}
	return Orders{CloseDecided: o.CloseDecided || next.CloseDecided, NotifyOwner: o.NotifyOwner || next.NotifyOwner,
		StopCause:      stop,
		RegisterWaiter: o.RegisterWaiter || next.RegisterWaiter, UnregisterWaiter: o.UnregisterWaiter ||
			next.UnregisterWaiter, HoldBack: o.HoldBack || next.HoldBack,
		DeleteKey: o.DeleteKey || next.DeleteKey, ForgetKey: o.ForgetKey || next.ForgetKey, CloseGone: o.CloseGone ||
			next.CloseGone}
}
