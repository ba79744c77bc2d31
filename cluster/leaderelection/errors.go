package leaderelection

import (
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state/format"
)

// Errors to test for with errors.Is.
var (
	// ErrNotLeader is returned when this node does not currently lead the election.
	ErrNotLeader = errors.New("this node is not the leader")
	// ErrNoLeader is returned when the election currently has no leader.
	ErrNoLeader = lifecycle.ErrNoLeader
	// ErrTermOver is returned when the term has ended; nothing was written under it.
	ErrTermOver = lifecycle.ErrTermOver
	// ErrBadName is returned for a name of an election that is not from 1 to 512 bytes long.
	ErrBadName = lifecycle.ErrBadName
	// ErrNotStarted is returned when the cluster has not started yet.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStarted is returned when Start is called twice.
	ErrStarted = errors.New("the election was started already; make a new one instead")
	// ErrStopped is returned when this node stops, or has stopped.
	ErrStopped = lifecycle.ErrStopped
	// ErrWithdrawn is returned when this node has withdrawn its candidacy.
	ErrWithdrawn = errors.New("this node has withdrawn from the election")
	// ErrClosed is returned when the handle of the election was closed.
	ErrClosed = errors.New("this view of the election was closed; ask for it again by its name")
	// ErrKeyLost reports an out-of-band change: another process deleted or replaced the leading key.
	ErrKeyLost = lifecycle.ErrKeyLost
	// ErrNotMember is returned when the named node is not a member of the cluster.
	ErrNotMember = lifecycle.ErrNotMember
	// ErrNotCandidate is returned when the named node is not a candidate in the election, or not any more.
	ErrNotCandidate = lifecycle.ErrNotCandidate
	// ErrOutsider is returned when an outside candidate leads, or waits before the target. It cannot be asked to
	// give way.
	ErrOutsider = lifecycle.ErrOutsider
	// ErrPreferred is returned when another candidate has a higher priority than the target.
	ErrPreferred = lifecycle.ErrPreferred
	// ErrFallback is returned in fallback, where the leader is chosen by address and cannot be moved.
	ErrFallback = lifecycle.ErrFallback
	// ErrNotMoved is returned when leadership did not reach the requested node in time.
	ErrNotMoved = lifecycle.ErrNotMoved
	// ErrWorkRuns is returned by a stop when functions in Lead or AsLeader have not returned within WorkTimeout after the
	// end of their context.
	ErrWorkRuns = lifecycle.ErrWorkRuns
	// ErrFormat is returned by Start when the other members use a format that this release of Goverse does not read. The
	// text names both formats and the remedy.
	ErrFormat = format.ErrFormat
)

// Reason is the reason for the end of a term.
type Reason string

// The reasons.
const (
	// ReasonResigned means that the node resigned.
	ReasonResigned = Reason(candidacy.ReasonResigned)
	// ReasonRequested means that another node, or an operator, requested the resignation.
	ReasonRequested = Reason(candidacy.ReasonRequested)
	// ReasonGaveWay means that in a named election the node gave way to a preferred candidate or to the target of
	// a transfer, or that its own priority changed.
	ReasonGaveWay Reason = "gave way to another candidate"
	// ReasonWithdrawn means that the node withdrew from the election.
	ReasonWithdrawn Reason = "withdrawn"
	// ReasonStopped means that the node stops.
	ReasonStopped = Reason(candidacy.ReasonStopped)
	// ReasonKeyLost means an out-of-band change: another process deleted or replaced the leading key.
	ReasonKeyLost = Reason(candidacy.ReasonKeyLost)
	// ReasonSessionLost means that the session was lost or suspended.
	ReasonSessionLost = Reason(candidacy.ReasonSessionLost)
	// ReasonSuperseded means that in fallback a candidate, or a smaller address, has appeared.
	ReasonSuperseded = Reason(candidacy.ReasonSuperseded)
)

// TermOverError describes the end of a term. It matches [ErrTermOver].
type TermOverError struct {
	Election string `json:"election"` // the election's name, "" for the cluster's own
	Token    int64  `json:"token"`
	Reason   Reason `json:"reason"`
	Err      error  `json:"-"` // details behind Reason, for example a session.LostError; may be nil
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

// Unwrap returns Err.
func (e *TermOverError) Unwrap() error { return e.Err }

// ReasonOf returns the reason for the end of a term. err is the cause of the term's context, or the error of its
// Lead. It returns "" if err does not report the end of a term.
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
