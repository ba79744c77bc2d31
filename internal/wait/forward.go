package wait

import "context"

// Forward sends what now returns, and then each other value as soon as it is another, until
// ctx ends. changed signals that it may be. A slow receiver misses what was overtaken, and
// always gets the newest.
func Forward[T comparable](ctx context.Context, out chan<- T, changed <-chan struct{}, now func() T) {
	ForwardFunc(ctx, out, changed, now, func(a, b T) bool { return a == b })
}

// ForwardFunc is Forward for values that equal tells apart.
func ForwardFunc[T any](ctx context.Context, out chan<- T, changed <-chan struct{}, now func() T,
	equal func(a, b T) bool) {
	var sent, value T
	stale := true // value has to be asked for
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

// Until blocks until done returns true, and asks again whenever changed signals; or until ctx
// ends, and returns its cause.
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
