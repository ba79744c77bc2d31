package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Position is the place of an event in its source. Only the source knows what it says and
// which comes first; "" is before the first event. It is UTF-8 text without NUL, of at most
// MaxPosition bytes.
type Position string

// MaxPosition is how many bytes a position may have: with a processor's name beside it, it fits
// into an index of PostgreSQL's, which takes 2704.
const MaxPosition = 2048

// Event is one event of a source.
type Event[E any] struct {
	// Position is this event's own; reading on after it gives the next one.
	Position Position
	Value    E
}

// Source is what events are read from. It is called by one goroutine at a time.
//
// A source may also implement [Lagger] and [Changer].
type Source[E any] interface {
	// Read returns at most limit events that come after the position, in order; none if there
	// are none at present. It may block until ctx ends, but need not wait for events. Each event
	// has a position of its own.
	//
	// An event may be shown only if none that comes before it can appear later. A table that is
	// read by its serial number breaks that: numbers are drawn before the transaction commits,
	// so that one that commits late is passed by.
	Read(ctx context.Context, after Position, limit int) ([]Event[E], error)
}

// Lagger is a source that can tell how far behind a position is.
type Lagger interface {
	// Lag is how many events come after the position. It is called beside Read, now and then.
	Lag(ctx context.Context, after Position) (int64, error)
}

// Changer is a source that can tell when to read: PollInterval is then only the upper bound.
type Changer interface {
	// Changed returns a channel that is closed when there may be more to read than at the time
	// of the call; see [Signal]. It is called by one goroutine, and must not block.
	Changed() <-chan struct{}
}

// ErrBadPosition: a position cannot be stored, or gone on from.
var ErrBadPosition = errors.New("bad position")

// Validate reports whether every checkpoint can store the position as it is; errors match [ErrBadPosition].
// Checkpoints call it. "" is valid: it is the beginning.
func (p Position) Validate() error {
	switch {
	case len(p) > MaxPosition:
		return fmt.Errorf("%w: it has %d bytes; give it at most %d", ErrBadPosition, len(p), MaxPosition)
	case !utf8.ValidString(string(p)) || strings.ContainsRune(string(p), 0):
		return fmt.Errorf("%w: %q is no UTF-8 text without NUL; write it in hex, for example", ErrBadPosition, p)
	}
	return nil
}

// checkPositions: an event must not be confused with the one before it.
func checkPositions(after Position, next func(i int) Position, n int) error {
	for i := range n {
		at := next(i)
		switch {
		case at == "":
			return fmt.Errorf("the source: %w: event %d after %q has none; give each event one", ErrBadPosition, i+1, after)
		case at == after:
			return fmt.Errorf("the source: %w: %q twice in a row; give each event one of its own", ErrBadPosition, at)
		}
		if err := at.Validate(); err != nil {
			return fmt.Errorf("the source: %w", err)
		}
		after = at
	}
	return nil
}
