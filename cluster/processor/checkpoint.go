package processor

import (
	"context"
	"errors"
	"time"
)

// The errors of a checkpoint, to test for with errors.Is.
var (
	// ErrFenced: somebody with a larger token has claimed the checkpoint.
	ErrFenced = errors.New("another process has claimed the checkpoint with a larger token; if none has, tokens have " +
		"begun anew (another lock, or an etcd without its data): Unfence of the checkpoint lets them")
	// ErrMoved: the checkpoint is not as it was; nothing was stored. Claim it again to go on.
	ErrMoved = errors.New("the checkpoint was changed meanwhile")
	// ErrRefused: what the work did could not be committed, and that is the work's fault: a
	// deferred constraint, or a statement that failed without the work saying so.
	ErrRefused = errors.New("what the handler did was refused when it was to be committed")
)

// Checkpoint keeps how far processors have come. All methods are safe for concurrent use.
// Package checkpointtest says what one has to do.
type Checkpoint interface {
	// Claim makes token the one that may advance the processor's checkpoint: from here on
	// smaller ones get ErrFenced, and marks of before ErrMoved, also for requests that are
	// still under way. Token 0 is one more than the last. It returns how far the processor has
	// come; one that is not known has come nowhere. The same token may claim again.
	Claim(ctx context.Context, name string, token int64) (Mark, error)
	// Advance runs work, once, and stores what it comes to, if the checkpoint still is as at says;
	// else nothing, with ErrFenced or ErrMoved. It returns the new mark, or at.
	//
	// If work fails, a checkpoint that can undo what it did does so and stores nothing; one that
	// cannot stores the progress that came with the error. Either way Advance returns an error
	// that matches work's. After any error Claim reports what is stored.
	Advance(ctx context.Context, name string, at Mark, work func(ctx context.Context) (Progress, error)) (Mark, error)
}

// Mark is how far a processor has come, as its checkpoint knows.
type Mark struct {
	Position Position // of the last event that is done with
	Token    int64    // of who claimed it
	Version  int64    // changes with everything that is stored; the checkpoint's own
}

// Progress is what a batch comes to.
type Progress struct {
	Position Position // of the last event that is done with
	Parked   []Parked // those that were given up
}

// Parked is an event that was given up after it had failed for too often.
type Parked struct {
	Position Position  `json:"position"`
	Error    string    `json:"error"` // what it failed with last, at most a few KiB of it
	Attempts int       `json:"attempts"`
	Token    int64     `json:"token"` // of who gave it up
	Time     time.Time `json:"time"`
}

// maxError is how much of an error's text is kept.
const maxError = 4 << 10
