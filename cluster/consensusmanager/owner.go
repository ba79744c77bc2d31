package consensusmanager

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/wait"
)

// Shard is the shard of a key.
func (h *Shards) Shard(key string) int { return shard.Of(key, h.cfg.Shards) }

// Count is how many shards there are.
func (h *Shards) Count() int { return h.cfg.Shards }

// Owner is the member that owns a key's shard as far as this node knows, and under which
// epoch; false if nobody does. It does not block. The owner may not serve the shard yet,
// or not any more: it knows best itself.
func (h *Shards) Owner(key string) (owner sharding.Owner, epoch int64, ok bool) {
	return h.OwnerOf(h.Shard(key))
}

// OwnerOf is Owner by the shard's number, from 0 to Count less one.
func (h *Shards) OwnerOf(shard int) (owner sharding.Owner, epoch int64, ok bool) {
	m := h.cfg.Mirror.Snapshot().Map()
	if m == nil || m.Shards() != h.cfg.Shards {
		return sharding.Owner{}, 0, false
	}
	owner, ok = m.Owner(shard)
	return owner, m.Epoch(shard), ok
}

// Serve runs fn while this node serves the key's shard, and returns what fn returned; or
// at once a [shard.NotOwnerError] if this node does not serve it, which matches [lifecycle.ErrStopped] too when
// the node has stopped. fn's context ends with ctx, when the shard was to be handed over and fn
// took longer than the drain time-out, and at the session's deadline; its cause then is
// [shard.ErrNotOwner] or the session's LostError. The shard is not handed over before fn has returned,
// unless the session is lost: then the epoch alone guards what fn writes. epoch is a fencing
// token: it grows with every owner of the shard; give it to whatever fn writes to. See
// [Shards.Hold] for what goes on until the shard is to be handed over.
func (h *Shards) Serve(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	shard := h.Shard(key)
	slot := &h.slots[shard]
	owned, epoch, ok := slot.enter()
	if !ok && slot.confirm(ctx) {
		owned, epoch, ok = slot.enter()
	}
	if !ok {
		return h.refusal(shard)
	}
	defer slot.leave()
	work, stop := wait.Within(ctx, owned)
	defer stop()
	return fn(work, epoch)
}

// Hold waits until this node serves the key's shard, runs fn, and returns what fn returned. It is
// for what goes on for as long as the shard is here, and would always use the drain time-out up:
// fn's context ends as soon as the shard is to be handed over, with [shard.ErrNotOwner] as its cause;
// all else is as with Serve. To go on when the shard comes back, call Hold again. If fn does not
// run, the error is the cause of ctx, or one that matches [lifecycle.ErrStopped] and shard.ErrNotOwner.
func (h *Shards) Hold(ctx context.Context, key string, fn func(ctx context.Context, epoch int64) error) error {
	shard := h.Shard(key)
	slot := &h.slots[shard]
	for {
		held, epoch, awaited := slot.join()
		if awaited == nil {
			defer slot.leave()
			work, stop := wait.Within(ctx, held)
			defer stop()
			return fn(work, epoch)
		}
		if slot.confirm(ctx) {
			continue
		}
		select {
		case <-awaited:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.patience.Done():
			return h.refusal(shard)
		}
	}
}

// refusal says why nothing runs in a shard here.
func (h *Shards) refusal(n int) error {
	owner, _, _ := h.OwnerOf(n)
	err := &shard.NotOwnerError{Shard: n, Owner: owner.Address}
	h.mu.Lock()
	if h.leaving && owner.Address == h.cfg.Address {
		err.Owner, err.Stopping = "", true // what is known is of before
	}
	h.mu.Unlock()
	if h.patience.Err() != nil {
		return fmt.Errorf("%w: %w", lifecycle.ErrStopped, err)
	}
	return err
}

// Serves reports whether this node serves a shard at this instant, and under which epoch. It
// panics if there is no such shard.
func (h *Shards) Serves(shard int) (epoch int64, ok bool) { return h.slots[shard].serves() }

// Held is how many shards this node holds: those that it acquires, serves, or releases.
func (h *Shards) Held() int { return int(h.held.Load()) }

// Waiting is how many shards are this node's, and still somebody else's to release.
func (h *Shards) Waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// idle blocks until this node holds no shard, or ctx ends.
func (h *Shards) idle(ctx context.Context) error {
	for {
		h.mu.Lock()
		none := h.none
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
