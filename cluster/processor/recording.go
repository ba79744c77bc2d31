package processor

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// Operator describes the caller of a request, for the event log.
type Operator struct {
	By     string // the operator's name, cut to 1 KiB
	Reason string // free text, cut to 1 KiB
}

type operatorKey struct{}

// WithOperator returns a context with which a Manager of [RecordRequests] records requests as those of the operator. A
// PauseRequest that names an operator or a reason takes precedence.
func WithOperator(ctx context.Context, o Operator) context.Context {
	return context.WithValue(ctx, operatorKey{}, o)
}

// RecordRequests returns m, with a call of record after each request of an operator that m has stored. The event has
// its type, an id, the present time, the processor, the operator of [WithOperator], and positions. A request that
// returns an error is not recorded, although it may have been stored. record must not block. It is called concurrently
// if requests are. If m is the result of RecordRequests, it is returned as it is.
func RecordRequests(m Manager, record func(e event.Event)) Manager {
	if r, ok := m.(recorded); ok {
		return r
	}
	return recorded{m, record}
}

// recorded is a Manager whose requests are recorded.
type recorded struct {
	Manager
	record func(e event.Event)
}

// maxRecorded limits a position in an event, in bytes.
const maxRecorded = 512

// recordRequest records a request unless it has failed.
func (r recorded) recordRequest(ctx context.Context, name string, e event.Event, err error) error {
	if err != nil {
		return err
	}
	o, _ := ctx.Value(operatorKey{}).(Operator)
	if e.By == "" {
		e.By = o.By
	}
	if e.Reason == "" {
		e.Reason = o.Reason
	}
	e.ID = string(e.Type) + "-" + strings.ToLower(rand.Text())
	e.Time, e.Processor = time.Now().UTC(), name
	e.By, e.Reason = logtext.Bound(e.By, maxReason), logtext.Bound(e.Reason, maxReason)
	e.From, e.Position = shortenPosition(e.From), shortenPosition(e.Position)
	r.record(e)
	return nil
}

func shortenPosition(at string) string {
	if len(at) <= maxRecorded {
		return at
	}
	return logtext.Bound(at, maxRecorded) + "..."
}

// RequestPause implements [Manager].
func (r recorded) RequestPause(ctx context.Context, name string, p PauseRequest) error {
	e := event.Event{Type: event.ProcessorResumed, By: p.By, Reason: p.Reason}
	if p.Paused {
		e.Type = event.ProcessorPaused
	}
	return r.recordRequest(ctx, name, e, r.Manager.RequestPause(ctx, name, p))
}

// Rewind implements [Manager].
func (r recorded) Rewind(ctx context.Context, name string, to Position) error {
	before, _ := r.Look(ctx, name) // only for the event
	e := event.Event{Type: event.ProcessorRewound, From: string(before.Position), Position: string(to)}
	return r.recordRequest(ctx, name, e, r.Manager.Rewind(ctx, name, to))
}

// Unfence implements [Manager].
func (r recorded) Unfence(ctx context.Context, name string) error {
	e := event.Event{Type: event.ProcessorUnfenced}
	return r.recordRequest(ctx, name, e, r.Manager.Unfence(ctx, name))
}

// RequestRetry implements [Manager].
func (r recorded) RequestRetry(ctx context.Context, name string, at Position) error {
	e := event.Event{Type: event.ProcessorRetried, Position: string(at)}
	return r.recordRequest(ctx, name, e, r.Manager.RequestRetry(ctx, name, at))
}

// Forget implements [Manager].
func (r recorded) Forget(ctx context.Context, name string, at Position) error {
	e := event.Event{Type: event.ProcessorDropped, Position: string(at)}
	return r.recordRequest(ctx, name, e, r.Manager.Forget(ctx, name, at))
}
