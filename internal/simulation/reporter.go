package simulation

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/ownership"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/txn"
)

// reporter stands for the loop of Shards.report.
type reporter struct {
	wanted *sharding.Report // to be written
	due    bool             // a report is wanted
	busy   bool             // with one
	about  int64            // generation of the last report
	more   int              // reports about that map after the first
	fails  int              // to write one, in a row
}

// want is the end of Shards.look.
func (h *holder) want(r *sharding.Report) {
	h.wanted = r
	if r != nil {
		h.due = true
		h.report()
	}
}

// report is a turn of Shards.report.
func (h *holder) report() {
	p := h.p
	if h.busy || !h.due {
		return
	}
	h.busy, h.due = true, false
	p.soon(func() {
		r := h.wanted
		if r == nil {
			h.reported()
			return
		}
		after := time.Duration(0)
		if r.Generation != h.about {
			h.about, h.more = r.Generation, 0
			if len(r.Busy) > 0 {
				after = ownership.FirstReport
			}
		} else {
			h.more++
			after = ownership.ReportAgain.Delay(h.more, backoff.NoJitter)
		}
		p.after(after, h.write)
	})
}

func (h *holder) reported() {
	h.busy = false
	h.report()
}

// write is Shards.write.
func (h *holder) write() {
	p, r := h.p, h.wanted
	snap := p.mirror.snapshot
	if r == nil || !p.keeper.current {
		h.reported()
		return
	}
	over := int64(0)
	if old := snap.ReleasedBy(p.host.address); old != nil {
		over = old.ModRevision
	}
	failed := func() {
		h.fails++
		p.after(ownership.ReportRetry.Delay(h.fails, backoff.NoJitter), func() {
			h.poke()
			h.reported()
		})
	}
	known := p.mirror.known
	due := p.host.mono() + int64(requestTimeout)
	p.change(toReport, requestTimeout, txn.Release(p.w.keys, p.host.address, p.keeper.session.lease, *r, over),
		func(a answer, err error) {
			if err == nil {
				p.mirror.saw(a.revision, known)
			}
			if err != nil || !a.held {
				failed()
				return
			}
			p.w.checks.count(Reported)
			if len(r.Busy) > 0 {
				p.w.checks.count(Straggled)
			}
			p.mirror.wait(durationOf(due-p.host.mono()), func(s *state.Snapshot) bool {
				now := s.ReleasedBy(p.host.address)
				return s.Revision >= a.revision || now != nil && now.Generation == r.Generation && slices.Equal(now.Busy, r.Busy)
			}, func(met bool) {
				if !met {
					failed()
					return
				}
				h.fails = 0
				h.reported()
			})
		})
}
