package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors of a checkpoint; test for them with errors.Is.
var (
	// ErrFenced is returned if a larger token has claimed the checkpoint.
	ErrFenced = errors.New("another process has claimed the checkpoint with a larger token; if none has, tokens have " +
		"begun anew (another lock, or an etcd without its data): Unfence of the checkpoint lets them")
	// ErrMoved is returned if the checkpoint has changed since the mark. Nothing was stored. Claim it again to
	// continue.
	ErrMoved = errors.New("the checkpoint was changed meanwhile")
	// ErrRefused is returned if the work's writes could not be committed and the work is the cause: a deferred
	// constraint, or a failed statement that the work did not report.
	ErrRefused = errors.New("what the handler did was refused when it was to be committed")
	// ErrNotParked is returned if no event is parked at a position.
	ErrNotParked = errors.New("no event is parked at that position: it was handled or dropped, or never parked")
)

// Checkpoint stores the positions of processors, and all that operators request of them; see [Manager]. All
// methods are safe for concurrent use. Package checkpointtest checks an implementation.
type Checkpoint interface {
	// Claim makes token the only one that may advance the processor's checkpoint. From then on, smaller tokens
	// get ErrFenced and earlier marks get ErrMoved, even if their requests are already in flight. Token 0
	// stands for the last token plus one. The same token may claim again. Claim returns the current mark; a
	// processor without a stored checkpoint is at the beginning.
	Claim(ctx context.Context, name string, token int64) (Mark, error)
	// Advance runs work once and stores the progress that it returns, if the checkpoint is still as in the mark
	// at. Otherwise it stores nothing and returns ErrFenced or ErrMoved. It returns the new mark, or at.
	//
	// If work fails, a checkpoint that can undo work's writes undoes them and stores nothing; others store the
	// progress that work returned with the error. In both cases Advance returns an error that matches work's.
	// After any error, Claim returns what is stored.
	Advance(ctx context.Context, name string, at Mark, work func(ctx context.Context) (Progress, error)) (Mark, error)
	// Report publishes the leader's report, in place of earlier ones, and returns the current mark. It does not
	// change the checkpoint, and no batch waits for it. It returns ErrFenced if the checkpoint is claimed with a
	// larger token than the report's, and ErrMoved if it is claimed with a smaller one.
	Report(ctx context.Context, name string, r Report) (Mark, error)
	// ParkedEvent returns the record of the event parked at a position, or ErrNotParked.
	ParkedEvent(ctx context.Context, name string, at Position) (Parked, error)
}

// Mark is the stored state of a processor's checkpoint.
type Mark struct {
	Position Position // of the last event that is done
	Token    int64    // of the process that claimed the checkpoint
	Version  int64    // changes with every write; only the checkpoint interprets it
	Claim    int64    // the number of claims so far
	// Replay is the position from which the checkpoint was rewound, until it is reached again; otherwise "". Up
	// to it, events may have been parked before.
	Replay Position
	// Paused is set if no event may be handled, by the request to pause or resume with that number; see
	// [PauseRequest].
	Paused  bool
	Request int64
	// Retry is the position of a parked event that should be handled again; "" if there is none.
	Retry Position
}

// replayFrom returns Replay of the mark after it is rewound to a position.
func (m Mark) replayFrom(to Position) Position {
	if m.Replay == "" && to == m.Position {
		return ""
	}
	return cmp.Or(m.Replay, m.Position)
}

// Progress is the result of a batch.
type Progress struct {
	Position Position // of the last event that is done
	Replay   Position // what the mark's Replay becomes
	Parked   []Parked // the events that were given up
	// Handled lists events that may have been parked before and are handled now: their records are removed.
	Handled []Position
	// Failed is a parked event that failed again when it was retried; nil if there is none. It replaces the record, unless
	// that was removed meanwhile, and ends the request for a retry.
	Failed *Parked
}

// isEmpty reports whether there is nothing to store after the mark.
func (p Progress) isEmpty(at Mark) bool {
	return p.Position == at.Position && len(p.Parked) == 0 && len(p.Handled) == 0 && p.Failed == nil
}

// Parked is an event that was given up after too many failures.
type Parked struct {
	Position Position `json:"position"`
	// After is the position after which the source returns the event. Releases without retries did not store it.
	After    Position  `json:"after"`
	Error    string    `json:"error"` // of the last attempt, at most a few KiB
	Attempts int       `json:"attempts"`
	Token    int64     `json:"token"` // of the term that gave it up
	Time     time.Time `json:"time"`
	// Retry is set while a retry is requested and not yet done. Checkpoints set it when they read the record.
	Retry bool `json:"-"`
}

// maxError limits the stored text of an error, in bytes.
const maxError = 4 << 10

func fencedError(name string, token, by int64) error {
	return fmt.Errorf("processor %q, token %d, stored %d: %w", name, token, by, ErrFenced)
}

func movedError(name string, at Mark, failed error) error {
	if failed != nil {
		return fmt.Errorf("processor %q: %w, and before that: %w", name, ErrMoved, failed)
	}
	return fmt.Errorf("processor %q, from %q: %w", name, at.Position, ErrMoved)
}

func unknownError(name string) error { return fmt.Errorf("processor %q: %w", name, ErrUnknown) }

func notParkedError(name string, at Position) error {
	return fmt.Errorf("processor %q, position %q: %w", name, at, ErrNotParked)
}
