// Package candidate decides one process's part in a named election: from the requests and the known state it
// derives the next state and the actions that follow. It is pure: package elections passes in the known state
// and carries out the actions.
//
//	NotQueued ─EnterQueue─► Queued ─BeginTerm─► Leading ─EndReason─► AwaitingWork ─ReleaseEntry─► NotQueued
//
// A leader that must stop lowers its flag at once. It releases its entry when no function of its term is waited for
// any longer.
//
// Not promised: freshness. A decision is as good as the view it is based on.
package candidate

import (
	"cmp"
	"errors"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
)

// Reasons for the end of a term, beside those of package leaderelection.
var (
	// ErrResigned is the reason of a term that ended by Resign.
	ErrResigned = errors.New("it resigned")
	// ErrGaveWay is the reason of a term that ended for a preferred or requested candidate, or because this
	// node's own priority changed.
	ErrGaveWay = errors.New("it gave way to another candidate")
)

// Phase is the progress of this process in the election.
type Phase int8

const (
	NotQueued    Phase = iota // no entry in the queue
	Queued                    // has or requested an entry
	Leading                   // its entry is granted
	AwaitingWork              // its term is over, and it waits for the functions in it
)

// Candidate is the state of this process's part in an election. The zero value only follows. It is immutable:
// each request and each view returns a new one.
type Candidate struct {
	Phase Phase
	// WantsToLead is set if the process wants to lead.
	WantsToLead bool
	// Priority is the requested priority, QueuedPriority that of the present entry.
	Priority, QueuedPriority int
	// ReleaseReason is the reason why the entry must be released; nil means that it need not be.
	ReleaseReason error
	// WithdrawReason is the reason why the process is no candidate although WantsToLead is set; nil if it is one.
	WithdrawReason error
	// Denied is set for a while after etcd has refused the process.
	Denied    bool
	Preferred order.PreferredSince
}

// Stand makes the process a candidate.
func (c Candidate) Stand(priority *int) Candidate {
	if priority != nil {
		c.Priority = *priority
	}
	c.WantsToLead = true
	if !errors.Is(c.WithdrawReason, lifecycle.ErrStopped) {
		c.WithdrawReason = nil
	}
	return c
}

// Withdraw ends the candidacy. The first reason stays.
func (c Candidate) Withdraw(why error) Candidate {
	if c.WithdrawReason == nil {
		c.WithdrawReason, c.ReleaseReason = why, why
	}
	return c
}

// Resign makes it end its term and queue again.
func (c Candidate) Resign() Candidate {
	c.ReleaseReason = ErrResigned
	return c
}

// View holds the known state.
type View struct {
	Now time.Time
	// Queue and Requests hold the entries of the election and the requests about it.
	Queue    order.Queue
	Requests []order.Request
	// Entry is this process's entry.
	Entry OwnEntry
	// WorkRunning is set while functions of its term run and are waited for.
	WorkRunning bool
	// PreferAfter is the time that a preferred candidate must stand before others let it pass.
	PreferAfter time.Duration
}

// OwnEntry is the known state of this process's entry in the queue.
type OwnEntry struct {
	Key            string
	CreateRevision int64 // of the key; 0 while unknown
	// SessionLost is set if the session is lost, and the entry with it.
	SessionLost bool
	Decided     bool
	// Err is the reason why an entry was not granted; nil if it was.
	Err error
	// Final is set if Err ends the candidacy.
	Final bool
	// EndCause is the reason why the holder of the granted entry must stop; nil while it need not.
	EndCause error
}

// keyVanished reports whether the watch shows that the entry's key is gone.
func (v View) keyVanished() bool {
	p := v.Entry
	return p.CreateRevision != 0 && v.Queue.KnownAt(p.CreateRevision) && !v.Queue.HasEntry(p.Key, p.CreateRevision)
}

// Orders lists the actions that the caller must carry out.
type Orders struct {
	// EndReason ends the term for that reason. Its flag goes down first.
	EndReason error
	// CutOffReason ends the contexts of all functions in the term that is over, for that reason.
	CutOffReason error
	// ReleaseEntry releases the entry.
	ReleaseEntry bool
	// DropEntry forgets an entry that has ended.
	DropEntry bool
	// Refused is etcd's error for the entry. Final means that it ends the candidacy.
	Refused error
	Final   bool
	// BeginTerm starts a term.
	BeginTerm bool
	// EnterQueue adds an entry if there is a session.
	EnterQueue bool
	// RecheckAfter is the time after which to look again even if nothing changes; 0 means not to.
	RecheckAfter time.Duration
}

// Decide returns the state that follows from the view, and the actions to carry out.
func (c Candidate) Decide(v View) (Candidate, Orders) {
	var o Orders
	if c.Phase != NotQueued && c.ReleaseReason == nil && v.keyVanished() {
		c.ReleaseReason = leaderelection.ErrKeyLost // the watch may report it long before the session does
	}
	c, o.RecheckAfter = c.yieldIfPreferred(v)
	c = c.endTerm(v, &o)
	if c.Phase == AwaitingWork {
		return c, o
	}
	if c.ReleaseReason != nil {
		if c.Phase != NotQueued {
			c.Phase, o.ReleaseEntry = NotQueued, true
		}
		c.ReleaseReason = nil
	}
	if c.Phase == Queued {
		c = c.beginOrDrop(v.Entry, &o)
	}
	if c.Phase == NotQueued && c.WantsToLead && c.WithdrawReason == nil && !c.Denied {
		c.Phase, c.QueuedPriority, o.EnterQueue = Queued, c.Priority, true
	}
	return c, o
}

// NotEntered records that there was no session for an entry.
func (c Candidate) NotEntered() Candidate {
	c.Phase = NotQueued
	return c
}

// RetryAllowed records that etcd may be asked again.
func (c Candidate) RetryAllowed() Candidate {
	c.Denied = false
	return c
}

// yieldIfPreferred decides to release the entry if others must pass it.
func (c Candidate) yieldIfPreferred(v View) (_ Candidate, again time.Duration) {
	if c.Phase == NotQueued || c.ReleaseReason != nil {
		return c, 0
	}
	giveWay := c.QueuedPriority != c.Priority
	if !giveWay {
		c.Preferred, giveWay, again = c.Preferred.MustGiveWay(v.Queue, v.Entry.Key, v.Entry.CreateRevision, v.Requests,
			v.PreferAfter, v.Now)
	}
	if giveWay {
		c.ReleaseReason = ErrGaveWay
	}
	return c, again
}

// endTerm ends a term that is over or must end. It releases the entry when no function of the term is waited for.
func (c Candidate) endTerm(v View, o *Orders) Candidate {
	lost := v.Entry.EndCause
	if c.Phase == Leading && (c.ReleaseReason != nil || lost != nil) {
		c.Phase, o.EndReason = AwaitingWork, cmp.Or(lost, c.ReleaseReason)
		if lost != nil || errors.Is(o.EndReason, leaderelection.ErrKeyLost) {
			o.CutOffReason = o.EndReason
		}
	}
	switch {
	case c.Phase != AwaitingWork:
	case !v.WorkRunning:
		c.Phase, o.ReleaseEntry = NotQueued, true
	case o.CutOffReason == nil && v.keyVanished(): // another candidate may lead already
		o.CutOffReason = leaderelection.ErrKeyLost
	}
	return c
}

// beginOrDrop starts a term if the entry was granted, and drops a lost one.
func (c Candidate) beginOrDrop(p OwnEntry, o *Orders) Candidate {
	switch {
	case !p.Decided && p.SessionLost:
		c.Phase, o.DropEntry = NotQueued, true
	case !p.Decided:
	case p.Err != nil:
		c.Phase, o.DropEntry = NotQueued, true
		if errors.Is(p.Err, entrystate.ErrEntryLost) || errors.Is(p.Err, lifecycle.ErrStopped) {
			break
		}
		o.Refused, o.Final = p.Err, p.Final
		if p.Final {
			c.WithdrawReason = cmp.Or(c.WithdrawReason, p.Err)
		} else {
			c.Denied = true
		}
	case p.EndCause != nil: // over before the term began
		c.Phase, o.ReleaseEntry = NotQueued, true
	default:
		c.Phase, o.BeginTerm = Leading, true
	}
	return c
}

// ReasonOf returns the reason of a term's end, or "" for an error of another kind.
func ReasonOf(err error) leaderelection.Reason {
	for sentinel, reason := range map[error]leaderelection.Reason{
		ErrResigned:                 leaderelection.ReasonResigned,
		ErrGaveWay:                  leaderelection.ReasonGaveWay,
		leaderelection.ErrWithdrawn: leaderelection.ReasonWithdrawn,
		lifecycle.ErrStopped:        leaderelection.ReasonStopped,
		leaderelection.ErrKeyLost:   leaderelection.ReasonKeyLost,
		session.ErrLost:             leaderelection.ReasonSessionLost,
	} {
		if errors.Is(err, sentinel) {
			return reason
		}
	}
	return ""
}
