package daemon

import (
	"context"
	"sync"
)

// guards are the goroutines that live until run ends: they notice a part that ended
// by itself, and end run with its reason.
type guards struct {
	ctx  context.Context
	fail context.CancelCauseFunc
	wg   sync.WaitGroup
}

func newGuards(run context.Context, fail context.CancelCauseFunc) *guards {
	return &guards{ctx: run, fail: fail}
}

// watch ends run when done is closed before it.
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

// goes runs f, which must return when run has ended.
func (g *guards) goes(f func()) { g.wg.Go(f) }

// wait joins them all; run must have ended or be about to.
func (g *guards) wait() { g.wg.Wait() }
