package elections

import (
	"errors"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
)

// Reasons for the end of a term or of a candidacy, beside those of package leaderelection.
var (
	// ErrObserver is returned when this node only observes the election.
	ErrObserver = errors.New("this node only observes the election; use Stand to be a candidate in it")
	// ErrResigned is the reason of a term that ended by Resign.
	ErrResigned = candidate.ErrResigned
	// ErrGaveWay is the reason of a term that ended for a preferred or requested candidate, or because this
	// node's own priority changed.
	ErrGaveWay = candidate.ErrGaveWay
)

// termOverError returns the error of the term with that token, with the reason why.
func (e *Election) termOverError(token int64, why error) *leaderelection.TermOverError {
	return &leaderelection.TermOverError{Election: e.name, Token: token, Reason: candidate.ReasonOf(why), Err: why}
}
