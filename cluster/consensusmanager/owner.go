package consensusmanager

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/wait"
)

// Shard returns the shard of a key.
func (h *Shards) Shard(key string) int { return shard.Of(key, h.cfg.Planning.Shards) }

// Count returns the number of shards.
func (h *Shards) Count() int { return h.cfg.Planning.Shards }

// ownerOf returns the owner of a shard as far as this node knows. It is the zero Owner if there is none, or if the map
// has another number of shards than this node.
func (h *Shards) ownerOf(n int) sharding.Owner {
	m := h.cfg.Mirror.Snapshot().Map()
	if m == nil || m.Shards() != h.cfg.Planning.Shards {
		return sharding.Owner{}
	}
	owner, _ := m.Owner(n)
	return owner
}

// Serve runs fn if this node serves the key's shard, and returns fn's error. Otherwise it returns a
// [shard.NotOwnerError] at once, which also matches [lifecycle.ErrStopped] if the node has stopped. If the process
// stood still, it first waits until etcd has confirmed the session. fn's
// context ends with ctx, at the session's deadline, and when the shard must be handed over and fn has run for
// longer than the drain time-out; its cause is then [shard.ErrNotOwner] or the session's LostError. The shard
// is not handed over before fn has returned, unless the session is lost; then only the epoch guards fn's
// writes. epoch is a fencing token that grows with every owner of the shard: pass it with each write. For work
// that lasts until the shard is handed over, see [Shards.Hold].
func (h *Shards) Serve(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	shard := h.Shard(key)
	slot := &h.slots[shard]
	owned, epoch, ok := slot.enterCall()
	if !ok && slot.confirmPeriod(ctx) {
		owned, epoch, ok = slot.enterCall()
	}
	if !ok {
		return h.notOwnerError(shard)
	}
	defer slot.leaveCall()
	work, stop := wait.MergeContexts(ctx, owned)
	defer stop()
	return fn(work, epoch)
}

// Hold blocks until this node serves the key's shard, runs fn, and returns fn's error. It is for work that
// lasts as long as the shard stays here and would always use up the drain time-out. fn's context therefore ends
// as soon as the shard must be handed over, with [shard.ErrNotOwner] as its cause. The rest is as with Serve.
// Call Hold again to continue when the shard comes back. If fn does not run, Hold returns ctx's cause, or an
// error that matches [lifecycle.ErrStopped] and shard.ErrNotOwner.
func (h *Shards) Hold(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	shard := h.Shard(key)
	slot := &h.slots[shard]
	for {
		held, epoch, awaited := slot.enterStay()
		if awaited == nil {
			defer slot.leaveCall()
			work, stop := wait.MergeContexts(ctx, held)
			defer stop()
			return fn(work, epoch)
		}
		if slot.confirmPeriod(ctx) {
			continue
		}
		select {
		case <-awaited:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.waitCtx.Done():
			return h.notOwnerError(shard)
		}
	}
}

// notOwnerError returns the error for work that this node refuses in shard n.
func (h *Shards) notOwnerError(n int) error {
	owner := h.ownerOf(n)
	err := &shard.NotOwnerError{Shard: n, Owner: owner.Address}
	h.mu.Lock()
	if h.leaving && owner.Address == h.cfg.Address {
		err.Owner, err.Stopping = "", true // the known map is older than the stop
	}
	h.mu.Unlock()
	if h.waitCtx.Err() != nil {
		return fmt.Errorf("%w: %w", lifecycle.ErrStopped, err)
	}
	return err
}

// Serves reports whether this node serves a shard at this instant, and its epoch. It panics if there is no such
// shard.
func (h *Shards) Serves(shard int) (epoch int64, ok bool) { return h.slots[shard].servedEpoch() }

// Held returns the number of shards that this node acquires, serves or releases.
func (h *Shards) Held() int { return int(h.held.Load()) }

// Waiting returns the number of shards that are assigned to this node but not yet released by another one.
func (h *Shards) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// awaitIdle blocks until this node holds no shard, or ctx ends.
func (h *Shards) awaitIdle(ctx context.Context) error {
	for {
		h.mu.Lock()
		none := h.allFree
		h.mu.Unlock()
		n := h.Held()
		if n == 0 {
			return nil
		}
		select {
		case <-none:
		case <-ctx.Done():
			return fmt.Errorf("%d shards are still held: %w", n, context.Cause(ctx))
		}
	}
}
