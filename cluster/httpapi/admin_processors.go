package httpapi

import (
	"context"
	"errors"

	"github.com/goverse/goverse/cluster/processor"
)

// PauseProcessorRequest is the body of the calls that pause and resume a processor.
type PauseProcessorRequest struct {
	Reason string `json:"reason,omitempty"` // free text, shown with the processor
}

// UnfenceRequest is the body of the call that lets any token claim a processor's checkpoint.
type UnfenceRequest struct {
	Reason string `json:"reason,omitempty"` // free text, for the event log
}

// RewindRequest is the body of the call that rewinds a processor.
type RewindRequest struct {
	// To is the position after which the processor continues. "" is the beginning: all events are handled again. It
	// must be given.
	To     *string `json:"to"`
	Reason string  `json:"reason,omitempty"` // free text, for the event log
}

// EventRequest is the body of the calls about a parked event.
type EventRequest struct {
	Position string `json:"position"`         // of the event
	Reason   string `json:"reason,omitempty"` // free text, for the event log
}

func (s *adminCalls) pauseProcessor(ctx context.Context, r *adminRequest) (any, error) {
	return s.requestPause(ctx, r, processor.Pause)
}

func (s *adminCalls) resumeProcessor(ctx context.Context, r *adminRequest) (any, error) {
	return s.requestPause(ctx, r, processor.Resume)
}

func (s *adminCalls) requestPause(ctx context.Context, r *adminRequest,
	do func(context.Context, processor.Manager, string, processor.PauseRequest) error) (any, error) {
	var body PauseProcessorRequest
	if err := r.decodeBody(&body); err != nil {
		return nil, err
	}
	return s.changeProcessor(ctx, r, body.Reason, func(ctx context.Context) error {
		return do(ctx, s.processors, r.name, processor.PauseRequest{Reason: body.Reason, By: r.caller})
	})
}

func (s *adminCalls) rewindProcessor(ctx context.Context, r *adminRequest) (any, error) {
	var body RewindRequest
	if err := r.decodeBody(&body); err != nil {
		return nil, err
	}
	if body.To == nil {
		return nil, missingFieldError("to", `the position after which it continues, "" for the beginning`)
	}
	return s.changeProcessor(ctx, r, body.Reason, func(ctx context.Context) error {
		return s.processors.Rewind(ctx, r.name, processor.Position(*body.To))
	})
}

func (s *adminCalls) unfenceProcessor(ctx context.Context, r *adminRequest) (any, error) {
	var body UnfenceRequest
	if err := r.decodeBody(&body); err != nil {
		return nil, err
	}
	return s.changeProcessor(ctx, r, body.Reason, func(ctx context.Context) error {
		return s.processors.Unfence(ctx, r.name)
	})
}

func (s *adminCalls) retryEvent(ctx context.Context, r *adminRequest) (any, error) {
	return s.changeEvent(ctx, r, func(ctx context.Context, at processor.Position) error {
		return processor.Retry(ctx, s.processors, r.name, at)
	})
}

func (s *adminCalls) dropEvent(ctx context.Context, r *adminRequest) (any, error) {
	return s.changeEvent(ctx, r, func(ctx context.Context, at processor.Position) error {
		return s.processors.Forget(ctx, r.name, at)
	})
}

func (s *adminCalls) changeEvent(ctx context.Context, r *adminRequest,
	do func(ctx context.Context, at processor.Position) error) (any, error) {
	var body EventRequest
	if err := r.decodeBody(&body); err != nil {
		return nil, err
	}
	if body.Position == "" {
		return nil, missingFieldError("position", "that of a parked event, as /cluster/processors/NAME/parked has it")
	}
	return s.changeProcessor(ctx, r, body.Reason, func(ctx context.Context) error {
		return do(ctx, processor.Position(body.Position))
	})
}

// changeProcessor changes a processor that exists, and returns it as it is then.
func (s *adminCalls) changeProcessor(ctx context.Context, r *adminRequest, reason string,
	do func(ctx context.Context) error) (any, error) {
	ctx = processor.WithOperator(ctx, processor.Operator{By: r.caller, Reason: reason})
	if _, err := s.processors.Look(ctx, r.name); err != nil {
		return nil, err
	}
	err := do(ctx)
	s.lists.forget(parkedQuestion(r.name))
	if err != nil {
		return nil, err
	}
	now, err := s.processors.Look(ctx, r.name)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(processor.ErrNotAcknowledged, err) // it was changed, and only the answer is missing
	}
	return newManagedProcessor(now), err
}
