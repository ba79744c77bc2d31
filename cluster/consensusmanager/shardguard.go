package consensusmanager

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

// Guard returns comparisons that hold in etcd only while this node owns shard n under that epoch. They also
// fail after a change of the map or of this node's report that leaves the shard alone.
//
// They suffice for this reason: no other node serves the shard while three things are true in etcd. The map
// names this process as the shard's owner, or as the member that a move of it comes from. This process is
// registered. Its report does not name the shard as released. Guard compares the map, the node key and the
// report with the versions by which the shard is this node's, so none of the three has changed.
func (h *Shards) Guard(n int, epoch int64) ([]clientv3.Cmp, error) {
	_, guard, err := h.guardWithRevisions(n, epoch)
	return guard, err
}

// guardRevisions holds the revisions that a guard compares: of the map, the own node key and the own report; 0 for one
// that does not exist.
type guardRevisions struct{ shardMap, incarnation, report int64 }

func guardRevisionsOf(snap *state.Snapshot, address string) (s guardRevisions) {
	if snap.ShardMap != nil {
		s.shardMap = snap.ShardMap.ModRevision
	}
	if m := snap.Member(address); m != nil {
		s.incarnation = m.Incarnation
	}
	if r := snap.ReportOf(address); r != nil {
		s.report = r.ModRevision
	}
	return s
}

// Owns reports whether this node owns shard n under that epoch at this instant, from OnAcquire until OnRelease has
// returned. It does not use the network.
func (h *Shards) Owns(n int, epoch int64) bool {
	return h.slots[n].ownsEpochNow(epoch) && h.assigned(h.cfg.Mirror.Snapshot(), n, epoch)
}

// assigned reports whether the snapshot assigns shard n, under that epoch, to this node's present session, or moves it
// away from there.
func (h *Shards) assigned(snap *state.Snapshot, n int, epoch int64) bool {
	s := h.cfg.Keeper.Current()
	return s != nil && assignedHere(snap, h.cfg.Address, int64(s.ID()), n, epoch)
}

// guardWithRevisions returns the conditions of Guard, and the revisions that they compare.
func (h *Shards) guardWithRevisions(n int, epoch int64) (guardRevisions, []clientv3.Cmp, error) {
	snap := h.cfg.Mirror.Snapshot()
	if !h.slots[n].ownsEpoch(epoch) || !h.assigned(snap, n, epoch) {
		return guardRevisions{}, nil, h.notOwnerError(n)
	}
	seen := guardRevisionsOf(snap, h.cfg.Address)
	return seen, []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(h.cfg.Keys.ShardMap()), "=", seen.shardMap),
		clientv3.Compare(clientv3.CreateRevision(h.cfg.Keys.Node(h.cfg.Address)), "=", seen.incarnation),
		clientv3.Compare(clientv3.ModRevision(h.cfg.Keys.Released(h.cfg.Address)), "=", seen.report),
	}, nil
}

// assignedHere reports whether the snapshot's map assigns shard n, under that epoch, to the process registered at
// address on that lease, or moves it away from there.
func assignedHere(snap *state.Snapshot, address string, lease int64, n int, epoch int64) bool {
	m := snap.Map()
	if m == nil || n >= m.Shards() {
		return false
	}
	member := snap.Member(address)
	if member == nil || member.KeyLease != lease { // another process may have the address by now
		return false
	}
	own := sharding.Owner{Address: address, Incarnation: member.Incarnation}
	if owner, ok := m.Owner(n); ok && owner == own && m.Epoch(n) == epoch {
		return true
	}
	move, moving := m.Move(n)
	return moving && move.From == own && epoch < move.Since // the shard may be on its way back already
}

// Txn returns a transaction that etcd commits only under Guard. If it fails because of a new map that leaves
// the shard alone, it is sent again under that map.
func (h *Shards) Txn(ctx context.Context, n int, epoch int64) clientv3.Txn {
	return txn.Collect(func(p txn.Parts) (*clientv3.TxnResponse, error) { return h.commitGuarded(ctx, n, epoch, p) })
}

// errOtherMap reports that the compared revisions have changed and nothing was done.
var errOtherMap = errors.New("the shard map is another one")

func (h *Shards) commitGuarded(ctx context.Context, n int, epoch int64, p txn.Parts) (*clientv3.TxnResponse, error) {
	for {
		was, guard, err := h.guardWithRevisions(n, epoch)
		if err != nil {
			return nil, err
		}
		fence := txn.Fence{Guards: guard, CheckOver: func() error { return nil },
			RefusedError: func() error { return errOtherMap }}
		resp, err := fence.Commit(ctx, h.cfg.Client, p)
		if !errors.Is(err, errOtherMap) {
			return resp, err
		}
		// The mirror will show the new state in a moment.
		waiting, stop := wait.MergeContexts(ctx, h.waitCtx)
		_, err = h.cfg.Mirror.Wait(waiting, func(s *state.Snapshot) bool {
			return guardRevisionsOf(s, h.cfg.Address) != was
		})
		stop()
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w: %w", n, errOtherMap, err)
		}
	}
}
