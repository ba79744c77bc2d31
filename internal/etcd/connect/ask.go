package connect

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/wait"
)

// lookAfter is how long etcd has to answer before it is looked at what is there: to say soon that it does
// not.
const lookAfter = time.Second / 2

// Ask puts a question to etcd, until ctx ends. Where there is no answer after half a second it looks at the
// addresses meanwhile: what can never be etcd ends the question; of what may be slow the log warns. Errors are those
// of Explain, which names the rights that the question needs. Beyond ctx it blocks as Explain does.
func (c Config) Ask(ctx context.Context, needs string, question func(ctx context.Context) error) error {
	c = c.withDefaults()
	said := c.report(ctx)
	return c.explain(ctx, c.ask(ctx, question, said.away), needs)
}

// ask is Ask without an explanation of what etcd answers. It calls away, unless that is nil, when there is no
// answer yet, with the reason if that may pass; not once it has returned.
func (c Config) ask(ctx context.Context, question func(ctx context.Context) error, away func(*problem)) error {
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
	var seen *problem // read after look
	var look sync.WaitGroup
	look.Go(func() {
		if !wait.For(waiting, lookAfter) {
			return
		}
		p := c.look(looking, context.DeadlineExceeded)
		if looking.Err() != nil {
			return // what it saw is its own end
		}
		switch seen = p; {
		case p.lasts():
			giveUp()
		case away != nil:
			away(p)
		}
	})
	err := question(asking)
	answered()
	if err == nil || !unanswered(err) {
		stopLooking()
	}
	look.Wait()
	if err != nil && seen != nil && (seen.lasts() || unanswered(err)) {
		return seen
	}
	return err
}
