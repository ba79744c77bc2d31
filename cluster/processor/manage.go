package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// The errors of operators' requests; test for them with errors.Is.
var (
	// ErrUnknown is returned for a processor of which a checkpoint has neither a position nor a request.
	ErrUnknown = errors.New("there is no such processor; List shows those that there are")
	// ErrNotAcknowledged is returned if a request is stored and the leader has not acknowledged it in time. It
	// stays, and the leader or the next one follows it.
	ErrNotAcknowledged = errors.New("the request is stored and will be followed, but no leader has acknowledged it yet")
	// ErrResumed is returned by Pause if the processor was resumed before it was paused.
	ErrResumed = errors.New("the processor was resumed meanwhile")
	// ErrRetryFailed is returned by Retry if the event has failed again and stays parked.
	ErrRetryFailed = errors.New("the event failed again and stays parked")
)

// Manager shows the processors of a whole cluster and takes operators' requests. [Etcd], [Memory], the checkpoint
// of package postgres and Cluster.Checkpoints implement it. All methods are safe for concurrent use. They block
// until the store has answered or ctx ends; a change that was cut short may have been made.
//
// Requests are stored beside the checkpoint. The leader follows them, and so does each later one.
type Manager interface {
	// List returns processors in the order of their names in the store, and whether there are more.
	List(ctx context.Context, q Query) (found []Standing, more bool, err error)
	// Look returns one processor, or ErrUnknown.
	Look(ctx context.Context, name string) (Standing, error)
	// RequestPause stores a request to pause or to resume, in place of earlier ones. It does not wait for the
	// leader; [Pause] does.
	RequestPause(ctx context.Context, name string, r PauseRequest) error
	// Rewind makes the processor continue after the given position, or with the first event after "". It changes
	// nothing else: smaller tokens stay fenced, and a pause lasts. What is in flight is either stored before or
	// refused. A running processor notices with its next batch, or after Config.CheckInterval.
	//
	// With a checkpoint that cannot undo a handler's effects, the events of a refused batch may have been handled.
	// If they must not be, after a rewind to a later position for example, pause the processor first.
	Rewind(ctx context.Context, name string, to Position) error
	// Unfence lets any token claim the checkpoint at its current position. It is for tokens that have started
	// again. First make sure that no process with an old token is still running.
	Unfence(ctx context.Context, name string) error
	// Parked returns the processor's parked events, oldest first, and at most MaxParked of them.
	Parked(ctx context.Context, name string) ([]Parked, error)
	// RequestRetry requests that the leader handle a parked event again, or returns ErrNotParked. It does not
	// wait for that; [Retry] does.
	RequestRetry(ctx context.Context, name string, at Position) error
	// Forget removes the record of a parked event, and with it the request for a retry. It returns no error if
	// there is none. A retry that has begun goes on.
	Forget(ctx context.Context, name string, at Position) error
	// ParkedEvent returns the record of the event parked at a position, or ErrNotParked.
	ParkedEvent(ctx context.Context, name string, at Position) (Parked, error)
}

// Query selects processors. The zero value selects all.
type Query struct {
	After string // excludes processors up to this name, in List's order
	Limit int    // limits the number of processors; 0 means 100, which is also the most
}

// MaxList and MaxParked are the largest numbers of processors and of parked events that a Manager returns at once.
const (
	MaxList   = 100
	MaxParked = 1000
)

// Number returns the number of processors that a List may return.
func (q Query) Number() int {
	if q.Limit <= 0 {
		return MaxList
	}
	return min(q.Limit, MaxList)
}

// PauseRequest is an operator's request to pause or to resume a processor.
type PauseRequest struct {
	Paused bool      `json:"paused"`
	Reason string    `json:"reason"`      // free text, cut to 1 KiB
	By     string    `json:"by"`          // the operator, cut to 1 KiB
	At     time.Time `json:"at,omitzero"` // by the operator's clock; RequestPause sets it
	// Number grows with each request. The checkpoint sets it.
	Number int64 `json:"-"`
}

// Normalize returns the request as checkpoints store it: with bounded text, and the current time.
func (r PauseRequest) Normalize() PauseRequest {
	r.Reason, r.By, r.At = logtext.Bound(r.Reason, maxReason), logtext.Bound(r.By, maxReason), time.Now().UTC()
	return r
}

const maxReason = 1 << 10

// Standing describes one processor in the whole cluster.
type Standing struct {
	Name     string       `json:"name"`
	Position Position     `json:"position"`         // of the last event that is done
	Token    int64        `json:"token"`            // of the process that claimed the checkpoint last; 0 if none did
	Claim    int64        `json:"claim"`            // the number of claims so far
	Replay   Position     `json:"replay,omitempty"` // see [Mark]
	Pause    PauseRequest `json:"pause"`            // the last one
	Parked   int64        `json:"parked"`           // the number of parked events
	// Report is the last report of a leader; nil if there is none.
	Report *Report `json:"report,omitempty"`
}

// ReportCurrent reports whether the report is of the process that claimed the checkpoint last. Otherwise the next
// leader has claimed it and not reported yet, or it does not report.
func (s Standing) ReportCurrent() bool {
	return s.Report != nil && s.Report.Token == s.Token && s.Report.Claim == s.Claim
}

// PauseAcknowledged reports whether no event is handled because of the last request: the leader has acknowledged it
// after its last batch was stored, or the last leader has ended, or there never was one.
func (s Standing) PauseAcknowledged() bool {
	switch {
	case !s.Pause.Paused:
		return false
	case s.ReportCurrent():
		return !s.Report.Leading || s.Report.Paused && s.Report.Request >= s.Pause.Number
	}
	return s.Report == nil && s.Claim == 0 && s.Token == 0
}

// Report is the status that a leader publishes. It is old if its leader is gone: nothing else removes it.
type Report struct {
	Status
	Node string    `json:"node"` // Config.Node of the leader
	At   time.Time `json:"at"`   // when it was published, by the leader's clock
	// Request is the number of the last request to pause or resume that the leader follows.
	Request int64 `json:"request"`
	Claim   int64 `json:"claim"` // of the mark that the leader had
}

// awaitPolicy determines how often a request is looked at.
var awaitPolicy = backoff.Policy{First: 20 * time.Millisecond, Last: 500 * time.Millisecond}

// Pause pauses a processor in the whole cluster, until a request to resume it. It blocks until the leader has stored
// the event that it was handling and has acknowledged the request, or until no leader runs. From then on no event is
// handled. The leader keeps its lead. If ctx ends first, the error matches ErrNotAcknowledged, and the request stays.
// Pausing a paused processor is not an error.
func Pause(ctx context.Context, m Manager, name string, r PauseRequest) error {
	r.Paused = true
	if err := CheckName(name); err != nil {
		return err
	}
	if err := m.RequestPause(ctx, name, r); err != nil {
		return err
	}
	return awaitRequest(ctx, "pause of processor "+strconv.Quote(name), func() (bool, error) {
		s, err := m.Look(ctx, name)
		if err == nil && !s.Pause.Paused {
			return true, fmt.Errorf("processor %q: %w", name, ErrResumed)
		}
		return err == nil && s.PauseAcknowledged(), err
	})
}

// Resume ends a pause. It does not wait for the leader. Resuming a processor that is not paused is not an error.
func Resume(ctx context.Context, m Manager, name string, r PauseRequest) error {
	r.Paused = false
	if err := CheckName(name); err != nil {
		return err
	}
	return m.RequestPause(ctx, name, r)
}

// Retry makes the leader handle a parked event once more, and blocks until it has. If the event fails, it stays parked
// and the error matches ErrRetryFailed. The error matches ErrNotParked if no event is parked there. If ctx ends first,
// the error matches ErrNotAcknowledged, and the request stays: for example, because the processor is paused, or
// because it was rewound and may come to the event by itself.
//
// The event is handled after events that follow it. The source must still return it after the event that was before
// it when it was parked.
func Retry(ctx context.Context, m Manager, name string, at Position) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := m.RequestRetry(ctx, name, at); err != nil {
		return err
	}
	return awaitRequest(ctx, fmt.Sprintf("retry of processor %q at %q", name, at), func() (bool, error) {
		p, err := m.ParkedEvent(ctx, name, at)
		switch {
		case errors.Is(err, ErrNotParked):
			return true, nil
		case err == nil && !p.Retry:
			return true, fmt.Errorf("processor %q, event %q: %w: %s", name, at, ErrRetryFailed, p.Error)
		}
		return false, err
	})
}

// awaitRequest waits until look reports that the request is over, and returns its error. It ignores errors of look
// until ctx ends.
func awaitRequest(ctx context.Context, what string, look func() (over bool, err error)) error {
	for pause := (backoff.Backoff{Policy: awaitPolicy}); ; {
		over, err := look()
		if over {
			return err
		}
		if !wait.For(ctx, pause.Next()) {
			return fmt.Errorf("%s: %w: %w", what, ErrNotAcknowledged, cmp.Or(err, context.Cause(ctx)))
		}
	}
}
