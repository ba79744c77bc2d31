package elections

import (
	"errors"
	"fmt"

	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/order"
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
	// ErrGaveWay is why a term ended in favour of a candidate that is preferred or was asked
	// for, or because this node's own priority changed.
	ErrGaveWay = errors.New("it gave way to another candidate")
	// ErrKeyGone is why a term ended whose key hands from outside have deleted.
	ErrKeyGone = leasequeue.ErrKeyGone
	// ErrLetGo: the election was closed; see Election.Close.
	ErrLetGo = errors.New("the election was closed; ask for it again by its name")
	// ErrNoLeader: nobody stands in the election.
	ErrNoLeader = errors.New("nobody leads that election")
	// ErrNotMoved: leadership did not go where it was asked to.
	ErrNotMoved = errors.New("leadership was not handed over")
	// ErrNotCandidate: who is to lead does not stand in the election, or not any more.
	ErrNotCandidate = order.ErrNotCandidate
	// ErrOutsider: a program that is no Goverse node leads or stands between.
	ErrOutsider = order.ErrOutsider
	// ErrPreferred: another candidate has a higher priority than the one that is to lead.
	ErrPreferred = order.ErrPreferred
	// ErrClosed: the node stops, or has stopped.
	ErrClosed = leasequeue.ErrClosed
)

// TermOverError says why a term ended. It matches [ErrTermOver].
type TermOverError struct {
	Election string
	Token    int64
	Err      error // ErrResigned, ErrGaveWay, ErrWithdrawn, ErrClosed, ErrKeyGone or a session.LostError
}

// Error names the election, the token and the reason.
func (e *TermOverError) Error() string {
	return fmt.Sprintf("election %q, token %d: %v: %v", e.Election, e.Token, ErrTermOver, e.Err)
}

// Is makes a TermOverError match ErrTermOver.
func (e *TermOverError) Is(target error) bool { return target == ErrTermOver }

// Unwrap is the reason.
func (e *TermOverError) Unwrap() error { return e.Err }
