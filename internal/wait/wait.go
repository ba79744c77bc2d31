// Package wait waits for a while or for a value to change, or for a context's end if that
// comes first. And it has the context that ends with the first of two.
//
// Not promised: that a wait lasts no longer than it was to. The process may be paused.
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
