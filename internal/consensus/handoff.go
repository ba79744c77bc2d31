package consensus

import (
	"context"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/ownership"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/wait"
)

// gatherLate is for how long shards whose calls take too long are gathered for one line in
// the log.
const gatherLate = 20 * time.Millisecond

func (h *Shards) acquire(g ownership.Grant, period *etcdsession.Period) {
	slot := &h.slots[g.Shard]
	h.mu.Lock()
	if !h.leaving {
		slot.begin(g.Epoch, period, h.cfg.OnAcquire != nil)
		h.held.Add(1)
	}
	leaving := h.leaving
	h.mu.Unlock()
	if leaving {
		return
	}
	if h.cfg.OnAcquire == nil {
		h.arrived(slot, g.Epoch)
		h.phases[serving].Add(1)
		return
	}
	h.phases[acquiring].Add(1)
	slot.mu.Lock()
	ctx := slot.context()
	slot.mu.Unlock()
	h.work.Go(func() {
		asked := h.ask(ctx, g)
		h.phases[acquiring].Add(-1)
		switch {
		case !asked:
			h.phases[releasing].Add(1)
			h.clear(slot)
		case slot.acquired():
			h.phases[releasing].Add(1)
			h.finishRelease(slot, g.Shard, nil)
		default:
			h.arrived(slot, g.Epoch)
			h.phases[serving].Add(1)
		}
	})
}

// ask calls OnAcquire when it is the shard's turn. It reports false if ctx ended before.
func (h *Shards) ask(ctx context.Context, g ownership.Grant) bool {
	if h.turn != nil {
		select {
		case h.turn <- struct{}{}:
			defer func() { <-h.turn }()
		case <-ctx.Done():
			return false
		}
		if ctx.Err() != nil {
			return false
		}
	}
	h.cfg.OnAcquire(ctx, g.Shard, g.Epoch)
	return true
}

func (h *Shards) release(shard int) {
	slot := &h.slots[shard]
	mine, drained := slot.drop()
	if mine {
		h.phases[serving].Add(-1)
		h.phases[releasing].Add(1)
		if h.residents != nil {
			h.residents.Leaving(shard)
		}
	}
	switch {
	case !mine:
	case drained == nil && h.cfg.OnRelease == nil && !h.occupied(shard):
		h.clear(slot)
	default:
		h.work.Go(func() { h.finishRelease(slot, shard, drained) })
	}
}

// finishRelease waits for what runs in a shard, cancels it when it takes too long, and frees the
// shard when it has ended.
func (h *Shards) finishRelease(slot *slot, shard int, drained <-chan struct{}) {
	if drained != nil {
		ctx, cancel := context.WithTimeout(h.patience, h.cfg.DrainTimeout)
		defer cancel()
		select {
		case <-drained:
		case <-ctx.Done():
			slot.close()
			h.overdue(shard)
			<-drained
		}
	}
	slot.close()
	h.vacate(shard)
	if h.cfg.OnRelease != nil {
		ctx, cancel := context.WithTimeout(h.patience, h.cfg.DrainTimeout)
		h.cfg.OnRelease(ctx, shard)
		cancel()
	}
	h.clear(slot)
}

// overdue says, in one line for all that are at about the same time, that calls in a shard
// take too long.
func (h *Shards) overdue(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = append(h.late, shard)
	if len(h.late) > 1 {
		return // somebody is about to say it
	}
	h.work.Go(func() {
		wait.For(context.Background(), gatherLate)
		h.mu.Lock()
		late := h.late
		h.late = nil
		h.mu.Unlock()
		slices.Sort(late)
		h.cfg.Logger.Warn("calls in shards that are to be handed over take too long: their contexts are cancelled, and "+
			"each shard waits for its own",
			"shards", sharding.FormatRanges(slices.Compact(late)), "after", h.cfg.DrainTimeout.String())
	})
}

// clear makes a shard free: it may be acquired anew, or reported.
func (h *Shards) clear(slot *slot) {
	slot.clear()
	h.phases[releasing].Add(-1)
	if h.held.Add(-1) == 0 {
		h.mu.Lock()
		close(h.none)
		h.none = make(chan struct{})
		h.mu.Unlock()
	}
	h.poke()
}
