package connect

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/wait"
)

// defaultDiagnoseAfter is short so that a cause is soon reported.
const defaultDiagnoseAfter = time.Second / 2

// noticeAfter is the time after diagnoseAfter at which OnWait is called although no cause was found yet.
const noticeAfter = 300 * time.Millisecond

// Ask calls question, which sends a request to etcd, until ctx ends. If there is no answer after half a second
// it examines the addresses meanwhile. If a server there can never be etcd, Ask cancels the question; if etcd
// may only be slow, it logs a warning. Errors are explained as by Explain, which names the rights in needs.
// After ctx has ended, Ask blocks as long as Explain does.
func (c Config) Ask(ctx context.Context, needs string, question func(ctx context.Context) error) error {
	c = c.withDefaults()
	return c.explain(ctx, c.runQuestion(ctx, question, c.newOutageLog(ctx)), needs)
}

// runQuestion does the same as Ask but does not explain etcd's answers. While there is no answer yet, it reports to
// said a cause that may pass. It reports nothing after it has returned.
func (c Config) runQuestion(ctx context.Context, question func(ctx context.Context) error, said *outageLog) error {
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	looking, stopLooking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLooking()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			stopLooking()
		}
	})()
	waiting, answered := context.WithCancel(looking)
	defer answered()
	var seen *problem // read after look has ended
	var look sync.WaitGroup
	look.Go(func() {
		if !wait.For(waiting, c.diagnoseAfter) {
			return
		}
		p := c.diagnoseAddresses(looking, context.DeadlineExceeded)
		if looking.Err() != nil {
			return // its finding is only that it was canceled
		}
		if seen = p; p.isPermanent() {
			giveUp()
		} else {
			said.logOutage(p)
		}
	})
	if said.onWait != nil {
		look.Go(func() {
			if wait.For(waiting, c.diagnoseAfter+noticeAfter) {
				said.reportWait(nil)
			}
		})
	}
	err := question(asking)
	answered()
	if err == nil || !isUnanswered(err) {
		stopLooking()
	}
	look.Wait()
	if err != nil && seen != nil && (seen.isPermanent() || isUnanswered(err)) {
		return seen
	}
	return err
}
