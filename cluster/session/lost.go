package session

import (
	"errors"
	"fmt"
)

// ErrLost is matched by every [LostError]: errors.Is(err, session.ErrLost).
var ErrLost = errors.New("session lost")

// ErrNotRenewed is in the error of a session that a node lost before any renewal of it was answered, as it did the one
// before, though etcd granted both.
var ErrNotRenewed = errors.New("etcd grants leases, and answers no renewals; behind a proxy such as etcd grpc-proxy, " +
	"which renews as no user, that stays so while access control is on: name etcd's members as endpoints")

// Reason says why a session was lost.
type Reason string

// The reasons.
const (
	// ReasonExpired: the deadline passed while renewals were under way.
	ReasonExpired Reason = "expired"
	// ReasonRevoked: etcd does not know the lease, before the deadline: somebody
	// revoked it.
	ReasonRevoked Reason = "revoked"
	// ReasonClosed: this process closed it.
	ReasonClosed Reason = "closed"
	// ReasonPaused: the process or machine stood still past the deadline.
	ReasonPaused Reason = "paused past the deadline"
	// ReasonStarved: the process has so little processor time that it stands still again and again, and etcd has had
	// another leader since it granted the lease. It gave the session up, so that another can lead.
	ReasonStarved Reason = "too little processor time"
	// ReasonUnreachable: etcd did not answer until the deadline, or not to renewals; see [ErrNotRenewed].
	ReasonUnreachable Reason = "etcd unreachable"
	// ReasonUnconfirmed suspends the session, and does not end it: there was a sign that others
	// may take this process for gone, and etcd did not confirm in time that they do not.
	ReasonUnconfirmed Reason = "unconfirmed"
	// ReasonPermission: etcd's access control refused the renewal, or the user.
	ReasonPermission Reason = "permission"
	// ReasonKeyLost: a key that the session stands on was deleted or replaced.
	ReasonKeyLost Reason = "key lost"
	// ReasonOtherHistory: etcd was restored from a backup, or replaced.
	ReasonOtherHistory Reason = "other history"
)

// LostError is why a session was lost. It matches [ErrLost].
type LostError struct {
	Reason Reason
	Err    error // the last error seen, or nil
}

// Error says the reason and, if there is one, the last error.
func (e *LostError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%v: %s", ErrLost, e.Reason)
	}
	return fmt.Sprintf("%v: %s: %v", ErrLost, e.Reason, e.Err)
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap is the last error seen.
func (e *LostError) Unwrap() error { return e.Err }

// ReasonOf is the reason in err's chain, "" when there is none.
func ReasonOf(err error) Reason {
	if lost, ok := errors.AsType[*LostError](err); ok {
		return lost.Reason
	}
	return ""
}
