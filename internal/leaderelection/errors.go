package leaderelection

import (
	"errors"

	"github.com/goverse/goverse/internal/candidacy"
)

// The errors to test for with errors.Is.
var (
	// ErrNotLeader: this node does not lead now.
	ErrNotLeader = errors.New("this node is not the leader")
	// ErrNoLeader: nobody leads now.
	ErrNoLeader = errors.New("there is no leader at the moment; try again")
	// ErrTermOver: the term has ended; nothing was written under it.
	ErrTermOver = errors.New("the term is over")
	// ErrStopped: the election was stopped.
	ErrStopped = errors.New("the election is stopped")
	// ErrStarted: Start was called twice.
	ErrStarted = errors.New("the election was started already; make a new one instead")
	// ErrNotMember: the node named is not a member of the cluster.
	ErrNotMember = candidacy.ErrNotMember
	// ErrNotCandidate: the member named does not stand for election.
	ErrNotCandidate = candidacy.ErrNotCandidate
	// ErrOutsideBetween: a candidate that is no member leads, or waits before the
	// target; it cannot be asked to give way.
	ErrOutsideBetween = candidacy.ErrOutsideBetween
	// ErrFallback: in fallback the leader is chosen by name; it cannot be moved.
	ErrFallback = errors.New("the cluster is in fallback, where the smallest address leads; mend the election first: goversed status shows why it fails")
	// ErrNotMoved: the leadership did not go where it was asked to in time.
	ErrNotMoved = errors.New("the leadership was not handed over in time")
)

// Reason says why a term ended.
type Reason string

// The reasons.
const (
	ReasonResigned    = Reason(candidacy.Resigned)
	ReasonRequested   = Reason(candidacy.Requested)
	ReasonStopped     = Reason(candidacy.Stopped)
	ReasonKeyLost     = Reason(candidacy.KeyLost)
	ReasonSessionLost = Reason(candidacy.SessionLost)
	ReasonSuperseded  = Reason(candidacy.Superseded)
)

// TermOverError is the cause of a term's context. It matches ErrTermOver.
type TermOverError struct {
	Token  int64
	Reason Reason
	Err    error // of a lost session: why; of a request: what it asked for; or nil
}

// Error says why the term ended.
func (e *TermOverError) Error() string {
	if e.Err != nil {
		return ErrTermOver.Error() + ": " + string(e.Reason) + ": " + e.Err.Error()
	}
	return ErrTermOver.Error() + ": " + string(e.Reason)
}

// Is makes a TermOverError match ErrTermOver.
func (e *TermOverError) Is(target error) bool { return target == ErrTermOver }

// Unwrap is Err.
func (e *TermOverError) Unwrap() error { return e.Err }
