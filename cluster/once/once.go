package once

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/internal/lifecycle"
)

// MaxValue limits the length of an effect's stored value, in bytes.
const MaxValue = 64 << 10

// DefaultRetention is the time for which the outcome of an effect is remembered by default; see
// cluster.Config.OnceRetention.
const DefaultRetention = 24 * time.Hour

// Errors to test for with errors.Is.
var (
	// ErrUnknown is matched by every [UnknownError].
	ErrUnknown = errors.New("it is not known whether the effect took place")
	// ErrValueTooLong is returned when the effect took place but its value was too long to store. Every caller
	// gets it; the call that ran the effect also gets the value.
	ErrValueTooLong = fmt.Errorf("the value is longer than the %d bytes that are kept: keep it elsewhere, by the "+
		"effect's name", MaxValue)
	// ErrNoMark is returned when the effect has no mark: it never ran, or its mark has expired.
	ErrNoMark = errors.New("nothing is known of that effect: it never ran, or was forgotten since")
	// ErrNotStarted is returned when the cluster has not started yet.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStopped is returned when the node stops, or has stopped.
	ErrStopped = lifecycle.ErrStopped
	// ErrBadName is returned for a name of an effect that is not from 1 to 512 bytes long.
	ErrBadName = lifecycle.ErrBadName
	// ErrNotUnknown is returned when the attempt's outcome is not unknown, so there is nothing to resolve.
	ErrNotUnknown = errors.New("the outcome of that attempt is not unknown")
)

// UnknownError identifies the attempt that left open whether the effect took place. It matches [ErrUnknown].
type UnknownError struct {
	Name    string
	Attempt int
	Token   int64  // the attempt's token, for Resolve
	By      string // the node that made the attempt
	Err     error  // why this call's own attempt is unresolved; nil for another call's attempt
}

// Error names the effect, the attempt, and what to do.
func (e *UnknownError) Error() string {
	s := fmt.Sprintf("effect %q, attempt %d by %s, token %d: %v: look where it would have taken place, then call Resolve",
		e.Name, e.Attempt, e.By, e.Token, ErrUnknown)
	if e.Err != nil { // joined errors may repeat a line
		s += ": " + strings.Join(slices.Compact(strings.Split(e.Err.Error(), "\n")), "; ")
	}
	return s
}

// Is makes an UnknownError match ErrUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// Result holds the outcome of an effect that took place.
type Result struct {
	// Value is the value that the function returned.
	Value []byte `json:"value"`
	// Attempt is the number of the attempt that took place, from 1, and Token its fencing token.
	Attempt int   `json:"attempt"`
	Token   int64 `json:"token"`
	// Ran reports whether this call ran the effect.
	Ran bool `json:"ran"`
}
