package wait

import "context"

// Forward sends the value that now returns, and then each new value, until ctx ends. changed signals that the
// value may have changed. A slow receiver misses intermediate values and always gets the newest one.
func Forward[T comparable](ctx context.Context, out chan<- T, changed <-chan struct{}, now func() T) {
	ForwardFunc(ctx, out, changed, now, func(a, b T) bool { return a == b })
}

// ForwardFunc is [Forward] for values that equal compares.
func ForwardFunc[T any](ctx context.Context, out chan<- T, changed <-chan struct{}, now func() T,
	equal func(a, b T) bool) {
	var sent, value T
	stale := true // value is out of date
	for first := true; ; {
		if stale {
			value, stale = now(), false
		}
		send := out
		if !first && equal(value, sent) {
			send = nil
		}
		select {
		case send <- value:
			sent, first = value, false
		case <-changed:
			stale = true
		case <-ctx.Done():
			return
		}
	}
}

// Until blocks until done returns true and then returns nil. It calls done at once and after each signal of
// changed. If ctx ends first, it returns the cause of ctx.
func Until(ctx context.Context, changed <-chan struct{}, done func() bool) error {
	for !done() {
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
