package daemon

import (
	"context"
	"sync"
)

// runGroup holds the goroutines that live until run ends. If a part ends by itself, they end run with the part's
// error as its cause.
type runGroup struct {
	ctx  context.Context
	fail context.CancelCauseFunc
	wg   sync.WaitGroup
}

func newRunGroup(run context.Context, fail context.CancelCauseFunc) *runGroup {
	return &runGroup{ctx: run, fail: fail}
}

// endRunOn ends run if done is closed first.
func (g *runGroup) endRunOn(done <-chan struct{}, reason func() error) {
	g.goTracked(func() {
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

// goTracked starts a goroutine for f, which must return when run has ended.
func (g *runGroup) goTracked(f func()) { g.wg.Go(f) }

// waitTracked joins all goroutines. Run must have ended, or be about to.
func (g *runGroup) waitTracked() { g.wg.Wait() }
