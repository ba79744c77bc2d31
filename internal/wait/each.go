package wait

import "context"

// Each calls do after every signal of changed, until ctx ends. One signal may stand for several changes.
func Each(ctx context.Context, changed <-chan struct{}, do func()) {
	for {
		select {
		case <-changed:
			do()
		case <-ctx.Done():
			return
		}
	}
}
