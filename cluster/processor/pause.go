package processor

import (
	"context"
)

// awaitResume waits while the processor is paused, until ctx ends. When it is called, no event is being handled and all
// that was handled is stored, so it acknowledges the request.
func (t *term[E]) awaitResume(ctx context.Context, token int64) error {
	if !t.mark.Paused {
		return nil
	}
	t.log.Info("processor paused", "token", token, "position", t.mark.Position, "request", t.mark.Request)
	for acknowledged := int64(-1); t.mark.Paused && ctx.Err() == nil; {
		if acknowledged != t.mark.Request {
			acknowledged = t.mark.Request
			t.p.report.setPaused(t.mark)
			t.reports.Send()
		}
		select {
		case <-t.looks:
			if _, err := t.followReport(ctx, token); err != nil {
				return err
			}
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		t.log.Info("processor resumed", "token", token, "position", t.mark.Position, "request", t.mark.Request)
		t.p.report.setPaused(t.mark)
		t.reports.Send()
	}
	return nil
}
