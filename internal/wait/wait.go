// Package wait blocks for a time, or until a value changes, or until a context ends if that comes first. It
// also has a context that ends with the first of two.
//
// Not promised: a wait may last longer than requested, because the process may be paused.
package wait

import (
	"context"
	"time"
)

// For blocks for d, or until ctx ends. It reports whether d has passed.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// UntilClosed blocks until done is closed and then returns nil, also if ctx has ended by then. If ctx ends first, it
// returns ctx's cause.
func UntilClosed(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	default:
		return context.Cause(ctx)
	}
}
