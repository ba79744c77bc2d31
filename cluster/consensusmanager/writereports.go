package consensusmanager

import (
	"context"
	"errors"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// errOvertaken reports that the report or this member's registration has changed meanwhile.
var errOvertaken = errors.New("the report or this node's registration changed meanwhile")

// writeReports writes the reports that other members wait for, until ctx ends: one for each map, and one for each
// batch of stragglers.
func (h *Shards) writeReports(ctx context.Context) {
	var about int64 // generation of the last report
	pause := backoff.Backoff{Policy: ownership.StragglerReportDelay, Random: h.cfg.Random}
	retry := backoff.Backoff{Policy: ownership.ReportRetry, Random: h.cfg.Random}
	for {
		select {
		case <-h.reportWake:
		case <-ctx.Done():
			return
		}
		r := h.wantedReport.Load()
		if r == nil {
			continue
		}
		if r.Generation != about {
			about = r.Generation
			pause.Reset()
			if len(r.Busy) > 0 && !wait.For(ctx, ownership.FirstReportDelay) {
				return
			}
		} else if !wait.For(ctx, pause.Next()) {
			return
		}
		if r = h.wantedReport.Load(); r == nil {
			continue
		}
		err := h.writeReport(ctx, r)
		if err == nil {
			retry.Reset()
			continue
		}
		if retry.Failures() == 0 && ctx.Err() == nil {
			h.cfg.Logger.Warn("could not report which shards were released, retrying", "error", err)
		}
		if !wait.For(ctx, retry.Next()) {
			return
		}
		h.wake.Send() // decide again which report is wanted
	}
}

// writeReport writes a report, and waits until the snapshot shows it, so that it is not written twice.
func (h *Shards) writeReport(ctx context.Context, r *sharding.Report) error {
	s, snap := h.cfg.Keeper.Current(), h.cfg.Mirror.Snapshot()
	if s == nil || snap == nil {
		return nil // reports of this incarnation do not matter in the next session
	}
	over := int64(0)
	if old := snap.ReportOf(h.cfg.Address); old != nil {
		if old.Equal(*r) {
			return nil // already written; the wanted report was not updated since
		}
		over = old.ModRevision
	}
	attempt, cancel := context.WithTimeout(ctx, h.cfg.RequestTimeout)
	defer cancel()
	known := h.cfg.Mirror.KnownRevision()
	resp, err := txn.Commit(attempt, h.cfg.Client, txn.WriteReport(h.cfg.Keys, h.cfg.Address, int64(s.ID()), *r, over))
	if err != nil {
		return err
	}
	h.cfg.Mirror.ObserveHeader(resp.Header, known)
	if !resp.Succeeded {
		return errOvertaken
	}
	_, err = h.cfg.Mirror.Wait(attempt, func(s *state.Snapshot) bool {
		now := s.ReportOf(h.cfg.Address)
		return s.Revision >= resp.Header.Revision || now != nil && now.Equal(*r)
	})
	return err
}
