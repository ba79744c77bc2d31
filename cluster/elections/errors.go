package elections

import (
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/internal/queues"
)

// The errors to test for with errors.Is.
var (
	// ErrNotLeader: this node does not lead that election now.
	ErrNotLeader = errors.New("this node does not lead that election")
	// ErrTermOver: the term has ended; nothing was written under it.
	ErrTermOver = errors.New("the term is over")
	// ErrObserver: this node only follows the election.
	ErrObserver = errors.New("this node only follows the election; leave Observe out to stand in it")
	// ErrWithdrawn: this node stood in the election and does not any more.
	ErrWithdrawn = errors.New("this node has withdrawn from the election")
	// ErrResigned is why a term ended that was given up.
	ErrResigned = errors.New("it resigned")
	// ErrClosed: the node stops, or has stopped.
	ErrClosed = queues.ErrClosed
)

// TermOverError says why a term ended. It matches [ErrTermOver].
type TermOverError struct {
	Election string
	Token    int64
	Err      error // ErrResigned, ErrWithdrawn, ErrClosed, a session.LostError, or what became of the key
}

// Error names the election, the token and the reason.
func (e *TermOverError) Error() string {
	return fmt.Sprintf("election %q, token %d: %v: %v", e.Election, e.Token, ErrTermOver, e.Err)
}

// Is makes a TermOverError match ErrTermOver.
func (e *TermOverError) Is(target error) bool { return target == ErrTermOver }

// Unwrap is the reason.
func (e *TermOverError) Unwrap() error { return e.Err }
