package consensusmanager

import (
	"context"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/wait"
)

// overdueLogDelay is the time in which shards with overdue calls are collected for one line in the log.
const overdueLogDelay = 20 * time.Millisecond

func (h *Shards) acquireShard(g ownership.Grant, period *etcdsession.Period) {
	slot := &h.slots[g.Shard]
	h.mu.Lock()
	if !h.leaving {
		slot.beginAcquire(g.Epoch, period, h.cfg.OnAcquire != nil)
		h.held.Add(1)
	}
	leaving := h.leaving
	h.mu.Unlock()
	if leaving {
		return
	}
	if h.cfg.OnAcquire == nil {
		h.recordArrival(slot, g.Epoch)
		h.phases[phaseServing].Add(1)
		return
	}
	h.phases[phaseAcquiring].Add(1)
	slot.mu.Lock()
	ctx := slot.ownerContext()
	slot.mu.Unlock()
	h.work.Go(func() {
		asked := h.callOnAcquire(ctx, g)
		h.phases[phaseAcquiring].Add(-1)
		switch {
		case !asked:
			h.phases[phaseReleasing].Add(1)
			h.freeShard(slot)
		case slot.finishAcquire():
			h.phases[phaseReleasing].Add(1)
			h.finishRelease(slot, g.Shard, nil)
		default:
			h.recordArrival(slot, g.Epoch)
			h.phases[phaseServing].Add(1)
		}
	})
}

// callOnAcquire calls OnAcquire when the shard's turn comes, and again if it fails by a panic or by ending its
// goroutine. Until it succeeds the shard is not served. asked is false if ctx ends before the first call; otherwise
// OnRelease must undo the calls.
func (h *Shards) callOnAcquire(ctx context.Context, g ownership.Grant) (asked bool) {
	callback.Repeat(ctx, h.cfg.Logger, "OnAcquire failed: the shard is not served before it succeeds", func() error {
		if h.acquireSlots != nil {
			select {
			case h.acquireSlots <- struct{}{}:
				defer func() { <-h.acquireSlots }()
			case <-ctx.Done():
			}
		}
		if ctx.Err() == nil {
			asked = true
			h.cfg.OnAcquire(ctx, g.Shard, g.Epoch)
		}
		return nil
	}, "shard", g.Shard)
	return asked
}

func (h *Shards) releaseShard(shard int) {
	slot := &h.slots[shard]
	mine, drained := slot.beginRelease()
	if mine {
		h.phases[phaseServing].Add(-1)
		h.phases[phaseReleasing].Add(1)
		if h.residents != nil {
			h.residents.Leaving(shard)
		}
	}
	switch {
	case !mine:
	case drained == nil && h.cfg.OnRelease == nil && !h.hasResidents(shard):
		h.freeShard(slot)
	default:
		h.work.Go(func() { h.finishRelease(slot, shard, drained) })
	}
}

// finishRelease waits for the calls in a shard, cancels them after the drain time-out, and frees the shard when
// they have ended.
func (h *Shards) finishRelease(slot *shardSlot, shard int, drained <-chan struct{}) {
	if drained != nil {
		ctx, cancel := context.WithTimeout(h.waitCtx, h.cfg.DrainTimeout)
		defer cancel()
		select {
		case <-drained:
		case <-ctx.Done():
			slot.endOwnerContext()
			h.logOverdue(shard)
			<-drained
		}
	}
	slot.endOwnerContext()
	h.removeResidents(shard)
	if h.cfg.OnRelease != nil {
		ctx, cancel := context.WithTimeout(h.waitCtx, h.cfg.DrainTimeout)
		err := callback.Run(func() error { h.cfg.OnRelease(ctx, shard); return nil })
		cancel()
		if err != nil {
			callback.LogFailure(h.cfg.Logger, "OnRelease failed, releasing the shard all the same", err, "shard", shard)
		}
	}
	h.freeShard(slot)
}

// logOverdue logs that calls in a shard take too long, in one line for all shards at about the same time.
func (h *Shards) logOverdue(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.overdueShards = append(h.overdueShards, shard)
	if len(h.overdueShards) > 1 {
		return // the first caller logs it
	}
	h.work.Go(func() {
		wait.For(context.Background(), overdueLogDelay)
		h.mu.Lock()
		late := h.overdueShards
		h.overdueShards = nil
		h.mu.Unlock()
		slices.Sort(late)
		h.cfg.Logger.Warn("calls in shards that are to be handed over take too long: their contexts are cancelled, and "+
			"each shard waits for its own",
			"shards", sharding.FormatRanges(slices.Compact(late)), "after", h.cfg.DrainTimeout.String())
	})
}

// freeShard makes a shard free. It may then be acquired again, or reported as released.
func (h *Shards) freeShard(slot *shardSlot) {
	slot.setFree()
	h.phases[phaseReleasing].Add(-1)
	if h.held.Add(-1) == 0 {
		h.mu.Lock()
		close(h.allFree)
		h.allFree = make(chan struct{})
		h.mu.Unlock()
	}
	h.wake.Send()
}
