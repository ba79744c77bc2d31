package wait

import (
	"context"
	"sync"
)

// RunAll returns a function that runs all runs concurrently until ctx ends, and returns when all of them have
// returned.
func RunAll(runs ...func(ctx context.Context)) func(ctx context.Context) {
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		for _, run := range runs {
			wg.Go(func() { run(ctx) })
		}
		wg.Wait()
	}
}
