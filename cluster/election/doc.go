// Package election has moved to package [github.com/goverse/goverse/cluster/leaderelection]. Its names remain here as
// aliases until v1.
//
// Deprecated: import cluster/leaderelection.
package election

import "github.com/goverse/goverse/cluster/leaderelection"

// Types of package leaderelection.
type (
	Reason        = leaderelection.Reason
	TermOverError = leaderelection.TermOverError
	Mode          = leaderelection.Mode
	Leader        = leaderelection.Leader
	Standing      = leaderelection.Standing
	Standby       = leaderelection.Standby
	Query         = leaderelection.Query
	StandOption   = leaderelection.StandOption
	StandOptions  = leaderelection.StandOptions
	Term          = leaderelection.Term
)

// Errors of package leaderelection.
var (
	ErrNotLeader    = leaderelection.ErrNotLeader
	ErrNoLeader     = leaderelection.ErrNoLeader
	ErrTermOver     = leaderelection.ErrTermOver
	ErrBadName      = leaderelection.ErrBadName
	ErrNotStarted   = leaderelection.ErrNotStarted
	ErrStopped      = leaderelection.ErrStopped
	ErrWithdrawn    = leaderelection.ErrWithdrawn
	ErrClosed       = leaderelection.ErrClosed
	ErrKeyLost      = leaderelection.ErrKeyLost
	ErrNotMember    = leaderelection.ErrNotMember
	ErrNotCandidate = leaderelection.ErrNotCandidate
	ErrOutsider     = leaderelection.ErrOutsider
	ErrPreferred    = leaderelection.ErrPreferred
	ErrFallback     = leaderelection.ErrFallback
	ErrNotMoved     = leaderelection.ErrNotMoved
)

// Constants of package leaderelection.
const (
	ReasonResigned    = leaderelection.ReasonResigned
	ReasonRequested   = leaderelection.ReasonRequested
	ReasonGaveWay     = leaderelection.ReasonGaveWay
	ReasonWithdrawn   = leaderelection.ReasonWithdrawn
	ReasonStopped     = leaderelection.ReasonStopped
	ReasonKeyLost     = leaderelection.ReasonKeyLost
	ReasonSessionLost = leaderelection.ReasonSessionLost
	ReasonSuperseded  = leaderelection.ReasonSuperseded
	ModeElection      = leaderelection.ModeElection
	ModeFallback      = leaderelection.ModeFallback
)

// ReasonOf is that of package leaderelection.
func ReasonOf(err error) Reason { return leaderelection.ReasonOf(err) }

// Priority is that of package leaderelection.
func Priority(n int) StandOption { return leaderelection.Priority(n) }
