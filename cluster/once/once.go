package once

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goverse/goverse/internal/lifecycle"
)

// MaxValue is the length, in bytes, of the longest value of an effect that is kept.
const MaxValue = 64 << 10

// The errors to test for with errors.Is.
var (
	// ErrUnknown is matched by every [UnknownError].
	ErrUnknown = errors.New("it is not known whether the effect took place")
	// ErrValueTooLong: the effect took place, and what it returned is not kept. Every caller gets it, the one
	// that ran the effect together with the value.
	ErrValueTooLong = fmt.Errorf("the value is longer than the %d bytes that are kept: keep it elsewhere, by the "+
		"effect's name", MaxValue)
	// ErrNoMark: nothing is known of that effect. It was never tried, or it was forgotten.
	ErrNoMark = errors.New("nothing is known of that effect: it never ran, or was forgotten since")
	// ErrNotStarted: the cluster has not started yet.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStopped: the node stops, or has stopped.
	ErrStopped = lifecycle.ErrStopped
	// ErrBadName: a name of an effect is from 1 to 512 bytes long.
	ErrBadName = lifecycle.ErrBadName
	// ErrNotUnknown: there is nothing to resolve.
	ErrNotUnknown = errors.New("the outcome of that attempt is not unknown")
)

// UnknownError says which attempt left open whether the effect took place. It matches
// [ErrUnknown].
type UnknownError struct {
	Name    string
	Attempt int
	Token   int64  // of that attempt; Resolve needs it
	By      string // who made it
	Err     error  // why this very attempt could not be resolved; nil if it was another one's
}

// Error names the effect, the attempt, and what to do.
func (e *UnknownError) Error() string {
	s := fmt.Sprintf("effect %q, attempt %d by %s, token %d: %v: look where it would have taken place, then call Resolve",
		e.Name, e.Attempt, e.By, e.Token, ErrUnknown)
	if e.Err != nil { // several may say the same
		s += ": " + strings.Join(slices.Compact(strings.Split(e.Err.Error(), "\n")), "; ")
	}
	return s
}

// Is makes an UnknownError match ErrUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap is the reason.
func (e *UnknownError) Unwrap() error { return e.Err }

// Result is what became of an effect that took place.
type Result struct {
	// Value is what the function returned.
	Value []byte
	// Attempt is the one that took place, from 1 up, and Token its fencing token.
	Attempt int
	Token   int64
	// Ran says that it was this very call that ran it.
	Ran bool
}
