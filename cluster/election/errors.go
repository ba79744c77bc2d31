package election

import (
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/lifecycle"
)

// The errors to test for with errors.Is.
var (
	// ErrNotLeader: this node does not lead the election now.
	ErrNotLeader = errors.New("this node is not the leader")
	// ErrNoLeader: the election has no leader now.
	ErrNoLeader = errors.New("there is no leader at the moment")
	// ErrTermOver: the term has ended; nothing was written under it.
	ErrTermOver = errors.New("the term is over")
	// ErrBadName: a name of an election is from 1 to 512 bytes long.
	ErrBadName = lifecycle.ErrBadName
	// ErrNotStarted: the cluster has not started yet.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStopped: this node stops, or has stopped.
	ErrStopped = lifecycle.ErrStopped
	// ErrWithdrawn: this node stood in the election and does not any more.
	ErrWithdrawn = errors.New("this node has withdrawn from the election")
	// ErrClosed: the handle of the election was closed.
	ErrClosed = errors.New("this view of the election was closed; ask for it again by its name")
	// ErrKeyLost: an out-of-band change: somebody deleted or replaced the key that leads.
	ErrKeyLost = errors.New("its key in etcd is gone, and this process did not delete it")
	// ErrNotMember: the node named is not a member of the cluster.
	ErrNotMember = errors.New("no such member; the members are shown by: goversed nodes")
	// ErrNotCandidate: the node named does not stand in the election, or not any more.
	ErrNotCandidate = errors.New("it does not stand in the election")
	// ErrOutsider: a candidate that is no Goverse node leads, or waits before the target; it
	// cannot be asked to give way.
	ErrOutsider = errors.New("a program that is no Goverse node leads, or stands before it, and lets nobody pass")
	// ErrPreferred: another candidate has a higher priority than the target.
	ErrPreferred = errors.New("another candidate has a higher priority and would take it back; alter the priorities")
	// ErrFallback: in fallback the leader is chosen by name; it cannot be moved.
	ErrFallback = errors.New("the cluster is in fallback, where the smallest address leads; " +
		"repair the election first: goversed status shows why it fails")
	// ErrNotMoved: the leadership did not go where it was asked to in time.
	ErrNotMoved = errors.New("the leadership was not handed over in time")
)

// Reason is why a term ended.
type Reason string

// The reasons.
const (
	// ReasonResigned: the node gave the leadership up.
	ReasonResigned Reason = "resigned"
	// ReasonRequested: another node, or an operator, requested it.
	ReasonRequested Reason = "asked to give way"
	// ReasonGaveWay: in a named election, it gave way to a candidate that is preferred or was
	// asked for, or this node's own priority changed.
	ReasonGaveWay Reason = "gave way to another candidate"
	// ReasonWithdrawn: the node withdrew from the election.
	ReasonWithdrawn Reason = "withdrawn"
	// ReasonStopped: the node stops.
	ReasonStopped Reason = "stopped"
	// ReasonKeyLost: an out-of-band change: somebody deleted or replaced the leading key.
	ReasonKeyLost Reason = "candidate key lost"
	// ReasonSessionLost: the session was lost or suspended.
	ReasonSessionLost Reason = "session lost"
	// ReasonSuperseded: in fallback, a candidate or a smaller address has appeared.
	ReasonSuperseded Reason = "fallback superseded"
)

// TermOverError says why a term ended. It matches [ErrTermOver].
type TermOverError struct {
	Election string // its name, "" for the cluster's own
	Token    int64
	Reason   Reason
	Err      error // what Reason stands for in full, as a session.LostError; or nil
}

// Error names the election, the token and the reason.
func (e *TermOverError) Error() string {
	where := ""
	if e.Election != "" {
		where = fmt.Sprintf("election %q, ", e.Election)
	}
	if e.Err != nil {
		return fmt.Sprintf("%stoken %d: %v: %v", where, e.Token, ErrTermOver, e.Err)
	}
	return fmt.Sprintf("%stoken %d: %v: %s", where, e.Token, ErrTermOver, e.Reason)
}

// Is makes a TermOverError match ErrTermOver.
func (e *TermOverError) Is(target error) bool { return target == ErrTermOver }

// Unwrap is Err.
func (e *TermOverError) Unwrap() error { return e.Err }

// ReasonOf is why the term ended whose context has err as its cause, or whose Lead returned it;
// "" if err does not say that a term ended.
func ReasonOf(err error) Reason {
	switch over, ok := errors.AsType[*TermOverError](err); {
	case ok:
		return over.Reason
	case errors.Is(err, session.ErrLost):
		return ReasonSessionLost
	case errors.Is(err, ErrKeyLost):
		return ReasonKeyLost
	}
	return ""
}
