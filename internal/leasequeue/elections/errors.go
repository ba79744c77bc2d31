package elections

import (
	"errors"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue/elections/candidate"
)

// Why a term ended, or a node stands no more; beside those that package election has.
var (
	// ErrObserver: this node only observes the election.
	ErrObserver = errors.New("this node only observes the election; use Stand to be a candidate in it")
	// ErrResigned is why a term ended that was given up.
	ErrResigned = candidate.ErrResigned
	// ErrGaveWay is why a term ended in favour of a candidate that is preferred or was asked
	// for, or because this node's own priority changed.
	ErrGaveWay = candidate.ErrGaveWay
)

// termOver is the end of the term with that token, and why.
func (e *Election) termOver(token int64, why error) *election.TermOverError {
	return &election.TermOverError{Election: e.name, Token: token, Reason: candidate.ReasonOf(why), Err: why}
}
