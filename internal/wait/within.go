package wait

import "context"

// Within is ctx as long as other lasts: it ends with the first of the two to end, and has that
// one's cause. Its values and its deadline are ctx's. If other has ended already, so has it; if
// other ends later, it does so a moment after. stop ends it and releases both; call it when the
// context is not needed any more. With the standard library's contexts no goroutine waits meanwhile.
func Within(ctx, other context.Context) (_ context.Context, stop context.CancelFunc) {
	ctx, end := WithinCause(ctx, other)
	return ctx, func() { end(nil) }
}

// WithinCause is Within with a cause for the code that ends the context: end releases both, as stop does.
func WithinCause(ctx, other context.Context) (_ context.Context, end context.CancelCauseFunc) {
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
