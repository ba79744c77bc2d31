package daemon

import (
	"context"
	"sync"
)

// guards holds the goroutines that live until run ends. If a part ends by itself, they end run with the part's
// error as its cause.
type guards struct {
	ctx  context.Context
	fail context.CancelCauseFunc
	wg   sync.WaitGroup
}

func newGuards(run context.Context, fail context.CancelCauseFunc) *guards {
	return &guards{ctx: run, fail: fail}
}

// watch ends run if done is closed first.
func (g *guards) watch(done <-chan struct{}, reason func() error) {
	g.goes(func() {
		select {
		case <-done:
			err := reason()
			if err == nil {
				err = errEnded
			}
			g.fail(err)
		case <-g.ctx.Done():
		}
	})
}

// goes starts a goroutine for f, which must return when run has ended.
func (g *guards) goes(f func()) { g.wg.Go(f) }

// wait joins all goroutines. Run must have ended, or be about to.
func (g *guards) wait() { g.wg.Wait() }
