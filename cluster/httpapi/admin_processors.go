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

// RewindRequest is the body of the call that rewinds a processor.
type RewindRequest struct {
	// To is the position after which the processor continues. "" is the beginning: all events are handled again. It
	// must be given.
	To *string `json:"to"`
}

// EventRequest is the body of the calls about a parked event.
type EventRequest struct {
	Position string `json:"position"` // of the event
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
	return s.changeProcessor(ctx, r, func() error {
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
	return s.changeProcessor(ctx, r, func() error {
		return s.processors.Rewind(ctx, r.name, processor.Position(*body.To))
	})
}

func (s *adminCalls) unfenceProcessor(ctx context.Context, r *adminRequest) (any, error) {
	if err := r.decodeBody(&struct{}{}); err != nil {
		return nil, err
	}
	return s.changeProcessor(ctx, r, func() error { return s.processors.Unfence(ctx, r.name) })
}

func (s *adminCalls) retryEvent(ctx context.Context, r *adminRequest) (any, error) {
	return s.changeEvent(ctx, r, func(at processor.Position) error {
		return processor.Retry(ctx, s.processors, r.name, at)
	})
}

func (s *adminCalls) dropEvent(ctx context.Context, r *adminRequest) (any, error) {
	return s.changeEvent(ctx, r, func(at processor.Position) error { return s.processors.Forget(ctx, r.name, at) })
}

func (s *adminCalls) changeEvent(ctx context.Context, r *adminRequest,
	do func(at processor.Position) error) (any, error) {
	var body EventRequest
	if err := r.decodeBody(&body); err != nil {
		return nil, err
	}
	if body.Position == "" {
		return nil, missingFieldError("position", "that of a parked event, as /cluster/processors/NAME/parked has it")
	}
	return s.changeProcessor(ctx, r, func() error { return do(processor.Position(body.Position)) })
}

// changeProcessor changes a processor that exists, and returns it as it is then.
func (s *adminCalls) changeProcessor(ctx context.Context, r *adminRequest, do func() error) (any, error) {
	if _, err := s.processors.Look(ctx, r.name); err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	now, err := s.processors.Look(ctx, r.name)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(processor.ErrNotAcknowledged, err) // it was changed, and only the answer is missing
	}
	return newManagedProcessor(now), err
}
