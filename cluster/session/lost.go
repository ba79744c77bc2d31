package session

import (
	"errors"
	"fmt"
)

// ErrLost is matched by every [LostError]: errors.Is(err, session.ErrLost).
var ErrLost = errors.New("session lost")

// ErrNotRenewed is wrapped by the error of a session that was lost before etcd answered any of its renewals, if
// that also happened to the session before it. etcd granted both leases.
var ErrNotRenewed = errors.New("etcd grants leases, and answers no renewals; behind a proxy such as etcd grpc-proxy, " +
	"which renews as no user, that stays so while access control is on: name etcd's members as endpoints")

// Reason is the reason for the loss of a session.
type Reason string

// The reasons.
const (
	// ReasonExpired means that the deadline passed while renewals were in flight.
	ReasonExpired Reason = "expired"
	// ReasonRevoked means that etcd did not know the lease although the deadline had not passed: another
	// process revoked it.
	ReasonRevoked Reason = "revoked"
	// ReasonClosed means that this process closed the session.
	ReasonClosed Reason = "closed"
	// ReasonPaused means that the process or the machine stood still past the deadline.
	ReasonPaused Reason = "paused past the deadline"
	// ReasonStarved means that the process repeatedly stood still for want of processor time, and that etcd had
	// elected another leader since it granted the lease. The process gave the session up so that another node
	// can lead.
	ReasonStarved Reason = "too little processor time"
	// ReasonUnreachable means that etcd answered nothing up to the deadline, or answered no renewals; see
	// [ErrNotRenewed].
	ReasonUnreachable Reason = "etcd unreachable"
	// ReasonConnectionLost means that the connection to PostgreSQL ended that a session there is bound to.
	ReasonConnectionLost Reason = "connection lost"
	// ReasonUnconfirmed means that the session is suspended. The session does not end. There was a sign that
	// other nodes may take this process for gone, and etcd did not confirm in time that it is still a member.
	ReasonUnconfirmed Reason = "unconfirmed"
	// ReasonPermission means that etcd's access control refused the renewal or the user.
	ReasonPermission Reason = "permission"
	// ReasonKeyLost means that a protected key of the session was deleted or replaced.
	ReasonKeyLost Reason = "key lost"
	// ReasonOtherHistory means that etcd was restored from a backup or replaced.
	ReasonOtherHistory Reason = "other history"
)

// LostError reports that a session was lost. It matches [ErrLost].
type LostError struct {
	Reason Reason
	Err    error // the last error seen; may be nil
}

// Error returns the reason and, if there is one, the last error.
func (e *LostError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%v: %s", ErrLost, e.Reason)
	}
	return fmt.Sprintf("%v: %s: %v", ErrLost, e.Reason, e.Err)
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the last error seen, or nil.
func (e *LostError) Unwrap() error { return e.Err }

// ReasonOf returns the reason of the LostError in err's chain, or "" if there is none.
func ReasonOf(err error) Reason {
	if lost, ok := errors.AsType[*LostError](err); ok {
		return lost.Reason
	}
	return ""
}
