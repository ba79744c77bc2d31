package wait

import (
	"context"
	"sync"
)

// All is what runs all of them beside each other until ctx ends, and returns when all have returned.
func All(runs ...func(ctx context.Context)) func(ctx context.Context) {
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		for _, run := range runs {
			wg.Go(func() { run(ctx) })
		}
		wg.Wait()
	}
}
