package wait

import "context"

// Forward sends what now returns, and then each other value as soon as it is another, until
// ctx ends. changed signals that it may be. A slow receiver misses what was overtaken, and
// always gets the newest.
func Forward[T comparable](ctx context.Context, out chan<- T, changed <-chan struct{}, now func() T) {
	var told T
	for first := true; ; {
		value := now()
		send := out
		if !first && value == told {
			send = nil
		}
		select {
		case send <- value:
			told, first = value, false
		case <-changed:
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
