package wait

import "context"

// MergeContexts returns a context that ends with the first of ctx and other, with the cause of that one. It has the
// values and the deadline of ctx. If other has already ended, the context has too; if other ends later, the
// context ends a moment after it. stop ends the context and releases its resources; call it when the context is
// no longer needed. For contexts of the standard library no goroutine waits meanwhile.
func MergeContexts(ctx, other context.Context) (_ context.Context, stop context.CancelFunc) {
	ctx, end := MergeContextsCause(ctx, other)
	return ctx, func() { end(nil) }
}

// MergeContextsCause is [MergeContexts] for callers that end the context with a cause of their own. end releases its
// resources, as stop does.
func MergeContextsCause(ctx, other context.Context) (_ context.Context, end context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if other.Err() != nil {
		cancel(context.Cause(other))
	}
	release := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func(cause error) {
		release()
		cancel(cause)
	}
}
