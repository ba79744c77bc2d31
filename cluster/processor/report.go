package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// maxReportedError limits the text of the last error in a report, in bytes.
const maxReportedError = 1 << 10

// newReport returns the report of a term at this time.
func (t *term[E]) newReport() Report {
	now := time.Now()
	s, request := t.p.report.current(now)
	s.LastError = logtext.Bound(s.LastError, maxReportedError)
	return Report{Status: s, Node: t.cfg.Node, At: now.UTC(), Request: request, Claim: t.claim.Load()}
}

// publish publishes a report.
func (t *term[E]) publish(ctx context.Context, r Report) (at Mark, err error) {
	err = callback.Run(func() (err error) {
		at, err = t.cfg.Checkpoint.Report(ctx, t.cfg.Name, r)
		return err
	})
	return at, err
}

// publishReports publishes a report at each CheckInterval and when one is requested, until the term is over. The marks
// that it gets show the requests of operators. The returned function ends that and waits for it.
func (t *term[E]) publishReports(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		timer := time.NewTicker(t.cfg.CheckInterval)
		defer timer.Stop()
		for failed := false; ctx.Err() == nil; {
			marks := t.marks.Load()
			at, err := t.publish(ctx, t.newReport())
			switch {
			case err == nil:
				t.pauseSeen.Store(at.Paused)
				t.see(look{at, marks})
			case errors.Is(err, ErrFenced) || errors.Is(err, ErrMoved):
				t.see(look{marks: marks}) // a claim shows what happened
			case ctx.Err() == nil:
				t.p.report.recordFailure(fmt.Errorf("publish the report: %w", err))
				if !failed {
					t.log.Warn("could not publish the report, retrying", "error", logtext.OneLine(err))
				}
			}
			failed = err != nil
			select {
			case <-timer.C:
			case <-t.reports:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// look is the mark that a report has got.
type look struct {
	Mark
	marks int64 // how often the term's mark had been set before
}

func (t *term[E]) see(l look) {
	t.seen.Store(&l)
	t.looks.Send()
}

// followReport follows what the last report shows, while no batch is in flight. It reports whether the position has
// changed. If the checkpoint has another version than the mark, it is claimed again.
func (t *term[E]) followReport(ctx context.Context, token int64) (moved bool, err error) {
	seen, before := t.seen.Swap(nil), t.mark.Position
	switch {
	case seen == nil:
		return false, nil
	case seen.marks != t.marks.Load():
		t.reports.Send() // it may show what was before the mark
		return false, nil
	case seen.Token == t.mark.Token && seen.Version == t.mark.Version:
		t.setMark(seen.Mark)
		return false, nil
	}
	if err := t.claimCheckpoint(ctx, token); err != nil {
		return false, err
	}
	t.reports.Send() // the report before was of another claim
	if t.mark.Position == before {
		return false, nil
	}
	t.log.Info("checkpoint moved", "token", token, "from", before, "position", t.mark.Position)
	t.p.report.setPosition(t.mark)
	return true, nil
}

// endTimeout limits the report that a term is over.
const endTimeout = time.Second

// publishEnd reports that the term is over. It is called after the lead is released, so no other process waits for it.
// If the next leader has claimed the checkpoint by then, it changes nothing.
func (t *term[E]) publishEnd(ctx context.Context) {
	if t.mark.Version == 0 || t.fenced {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	_, _ = t.publish(ctx, t.newReport()) // best effort: the report is then recognized by its age
}
