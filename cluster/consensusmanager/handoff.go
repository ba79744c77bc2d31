package consensusmanager

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/wait"
)

// gatherLate is the time in which shards with late calls are collected for one line in the log.
const gatherLate = 20 * time.Millisecond

// hookRetryFirst and hookRetryLast bound the pause before a failed OnAcquire is called again. The pause doubles
// each time.
const hookRetryFirst, hookRetryLast = time.Second / 4, 10 * time.Second

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

// ask calls OnAcquire when the shard's turn comes, and again if it fails by a panic or by ending its goroutine.
// Until it succeeds the shard is not served. ask returns false if ctx ends before the first call.
func (h *Shards) ask(ctx context.Context, g ownership.Grant) bool {
	again := backoff.Policy{First: hookRetryFirst, Last: hookRetryLast}
	for failures := 1; ; failures++ {
		asked, err := h.askOnce(ctx, g)
		if err == nil {
			return asked
		}
		h.hookFailed("OnAcquire", g.Shard, err)
		if !wait.For(ctx, again.Delay(failures, rand.Float64())) {
			return true // OnRelease must undo the failed calls
		}
	}
}

// hookFailed logs that a user's function has failed.
func (h *Shards) hookFailed(hook string, shard int, err error) {
	about := []any{"shard", shard, "error", err}
	if stack := callback.Stack(err); stack != "" {
		about = append(about, "stack", stack)
	}
	h.cfg.Logger.Error(hook+" failed, "+map[string]string{"OnAcquire": "calling it again: the shard is not served before",
		"OnRelease": "releasing the shard all the same"}[hook], about...)
}

// askOnce calls OnAcquire when the shard's turn comes.
func (h *Shards) askOnce(ctx context.Context, g ownership.Grant) (asked bool, err error) {
	if h.turn != nil {
		select {
		case h.turn <- struct{}{}:
			defer func() { <-h.turn }()
		case <-ctx.Done():
			return false, nil
		}
		if ctx.Err() != nil {
			return false, nil
		}
	}
	return true, callback.Run(func() error { h.cfg.OnAcquire(ctx, g.Shard, g.Epoch); return nil })
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

// finishRelease waits for the calls in a shard, cancels them after the drain time-out, and frees the shard when
// they have ended.
func (h *Shards) finishRelease(slot *slot, shard int, drained <-chan struct{}) {
	if drained != nil {
		ctx, cancel := context.WithTimeout(h.unhurried, h.cfg.DrainTimeout)
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
		ctx, cancel := context.WithTimeout(h.unhurried, h.cfg.DrainTimeout)
		err := callback.Run(func() error { h.cfg.OnRelease(ctx, shard); return nil })
		cancel()
		if err != nil {
			h.hookFailed("OnRelease", shard, err)
		}
	}
	h.clear(slot)
}

// overdue logs that calls in a shard take too long, in one line for all shards at about the same time.
func (h *Shards) overdue(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = append(h.late, shard)
	if len(h.late) > 1 {
		return // the first caller logs it
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

// clear makes a shard free. It may then be acquired again, or reported as released.
func (h *Shards) clear(slot *slot) {
	slot.clear()
	h.phases[releasing].Add(-1)
	if h.held.Add(-1) == 0 {
		h.mu.Lock()
		close(h.none)
		h.none = make(chan struct{})
		h.mu.Unlock()
	}
	h.wakeLoop()
}
