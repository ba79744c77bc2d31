package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Position is the place of an event in its source. Only the source can interpret and compare positions. ""
// precedes the first event. A position is UTF-8 text without NUL, of at most MaxPosition bytes.
type Position string

// MaxPosition limits the length of a position, in bytes. Together with a processor's name it fits into an index
// of PostgreSQL, which accepts 2704 bytes.
const MaxPosition = 2048

// Event is one event of a source.
type Event[E any] struct {
	// Position is the event's own position. Reading after it returns the next event.
	Position Position
	Value    E
}

// Source provides events. One goroutine at a time calls it.
//
// A source may also implement [Lagger] and [Changer].
type Source[E any] interface {
	// Read returns at most limit events that follow the position, in order, or none if there are none now. It
	// may block until ctx ends, but need not wait for events. Each event has a position of its own.
	//
	// An event may be returned only if no earlier event can appear afterwards. A table that is read by its
	// serial number violates this: a number is drawn before its transaction commits, so the row of a
	// transaction that commits late is missed.
	Read(ctx context.Context, after Position, limit int) ([]Event[E], error)
}

// Lagger is a source that can count the events after a position.
type Lagger interface {
	// Lag returns the number of events after the position. It is called from time to time, concurrently with
	// Read.
	Lag(ctx context.Context, after Position) (int64, error)
}

// Changer is a source that signals new events. PollInterval is then only an upper limit.
type Changer interface {
	// Changed returns a channel that is closed when there may be more to read than at the time of the call; see
	// [Signal]. One goroutine calls it, and it must not block.
	Changed() <-chan struct{}
}

// ErrBadPosition is returned for a position that cannot be stored, or from which the source cannot continue.
var ErrBadPosition = errors.New("bad position")

// Validate returns an error that matches [ErrBadPosition] if some checkpoint could not store the position as it
// is. Checkpoints call it. "", the beginning, is valid.
func (p Position) Validate() error {
	switch {
	case len(p) > MaxPosition:
		return fmt.Errorf("%w: it has %d bytes; give it at most %d", ErrBadPosition, len(p), MaxPosition)
	case !utf8.ValidString(string(p)) || strings.ContainsRune(string(p), 0):
		return fmt.Errorf("%w: %q is no UTF-8 text without NUL; write it in hex, for example", ErrBadPosition, p)
	}
	return nil
}

// checkPositions returns an error unless each event can be distinguished from the one before it.
func checkPositions(after Position, next []Position) error {
	for i, at := range next {
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
