package processor

import (
	"context"
	"errors"
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
)

// Checkpoint stores the positions of processors. All methods are safe for concurrent use. Package
// checkpointtest checks an implementation.
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
}

// Mark is the stored state of a processor's checkpoint.
type Mark struct {
	Position Position // of the last event that is done
	Token    int64    // of the process that claimed the checkpoint
	Version  int64    // changes with every write; only the checkpoint interprets it
}

// Progress is the result of a batch.
type Progress struct {
	Position Position // of the last event that is done
	Parked   []Parked // the events that were given up
}

// Parked is an event that was given up after too many failures.
type Parked struct {
	Position Position  `json:"position"`
	Error    string    `json:"error"` // of the last attempt, at most a few KiB
	Attempts int       `json:"attempts"`
	Token    int64     `json:"token"` // of the term that gave it up
	Time     time.Time `json:"time"`
}

// maxError limits the stored text of an error, in bytes.
const maxError = 4 << 10
