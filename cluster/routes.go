package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// shardRoutes maps shards to their owners, from the node's own snapshot. It implements route.Map and gateway.Routes.
type shardRoutes struct {
	c    *Cluster
	view *watchcache.Mirror

	mu       sync.Mutex
	snapshot *state.Snapshot
	nodes    connectionCloser               // as of snapshot
	current  *objectspb.WatchRoutesResponse // built from both on demand; nil: not built yet
	changed  chan struct{}                  // closed when Routes would return something else
}

func newRoutes(c *Cluster, view *watchcache.Mirror) *shardRoutes {
	return &shardRoutes{c: c, view: view, changed: make(chan struct{})}
}

// shardMap returns the map as this node knows it, nil without one.
func (r *shardRoutes) shardMap() *sharding.Map {
	return r.view.Snapshot().Map()
}

// Shard implements route.Map.
func (r *shardRoutes) Shard(key string) (int, bool) {
	if !r.c.cfg.Sharding.Off {
		return shard.Of(key, r.c.cfg.Sharding.Shards), true
	}
	m := r.shardMap()
	if m == nil {
		return 0, false
	}
	return shard.Of(key, m.Shards()), true
}

// Owner implements route.Map.
func (r *shardRoutes) Owner(n int) (address string, generation int64) {
	return ownerIn(r.view.Snapshot(), n)
}

// ownerIn returns the owner of a shard to which calls go. It returns none if the owner is gone, even if the map
// still names it: the next map comes soon, and a process that stands still would accept a connection but not
// answer.
func ownerIn(s *state.Snapshot, n int) (address string, generation int64) {
	shards := s.Map()
	if shards == nil || n >= shards.Shards() {
		return "", 0
	}
	owner, _ := shards.Owner(n)
	if m := s.Member(owner.Address); m == nil || m.Incarnation != owner.Incarnation {
		owner.Address = ""
	}
	return owner.Address, s.ShardMap.Generation()
}

// Former implements route.Map.
func (r *shardRoutes) Former(n int) string {
	s := r.view.Snapshot()
	shards := s.Map()
	if shards == nil || n >= shards.Shards() {
		return ""
	}
	move, open := shards.Move(n)
	if !open || s.MoveDone(move) {
		return ""
	}
	return move.From.Address
}

// AwaitChange implements route.Map.
func (r *shardRoutes) AwaitChange(ctx context.Context, n int, seen route.SeenOwner) error {
	_, err := r.view.Wait(ctx, func(s *state.Snapshot) bool { return seen.ChangedBy(ownerIn(s, n)) })
	if err != nil && r.c.finished.Load() {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}

// hasMember reports whether a member is registered at the address.
func (r *shardRoutes) hasMember(address string) bool { return r.view.Snapshot().Member(address) != nil }

// Routes implements gateway.Routes.
func (r *shardRoutes) Routes() (*objectspb.WatchRoutesResponse, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil && r.snapshot != nil {
		r.current = newRoutesResponse(r.snapshot, r.c.cfg.EtcdPrefix, r.nodes)
	}
	return r.current, r.changed
}

// run keeps the result of Routes current until ctx ends. It calls drop with the address of each process that is
// gone: otherwise a call to a process that stands still would wait for its deadline.
func (r *shardRoutes) run(ctx context.Context, drop func(address string)) {
	var seen stoppingNodes
	sub := r.view.Subscribe(func(before, now *state.Snapshot) bool {
		return seen.concerns(before, now) || before.ShardMap != now.ShardMap ||
			before.Leader().Address != now.Leader().Address
	})
	defer sub.Close()
	due := time.NewTimer(0)
	defer due.Stop()
	var known connectionCloser
	for {
		select {
		case <-sub.C:
		case <-due.C:
		case <-ctx.Done():
			return
		}
		s := r.view.Snapshot()
		if s == nil {
			continue // the first one is still to come
		}
		next, gone, again := known.applySnapshot(s, seen.takeSeen(), time.Now())
		known = next
		for _, address := range gone {
			drop(address)
		}
		r.publishRoutes(s, known)
		if again > 0 {
			due.Reset(again)
		}
	}
}

// publishRoutes makes Routes return the routes of a snapshot.
func (r *shardRoutes) publishRoutes(s *state.Snapshot, nodes connectionCloser) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snapshot, r.nodes, r.current = s, nodes, nil
	close(r.changed)
	r.changed = make(chan struct{})
}

// newRoutesResponse converts a snapshot for clients that are no nodes; it returns nil while there is no map.
func newRoutesResponse(s *state.Snapshot, prefix string, seen connectionCloser) *objectspb.WatchRoutesResponse {
	m := s.Map()
	if m == nil {
		return nil
	}
	leader := s.Leader().Address
	if l := s.Member(leader); l != nil && l.ElectionOnly {
		leader = "" // it has no server
	}
	out := &objectspb.WatchRoutesResponse{Prefix: prefix, Generation: m.Generation(), Owners: make([]uint32, m.Shards()),
		Leader: leader, Nodes: seen.connectedNodes()}
	known := map[string]uint32{}
	for n := range out.Owners {
		owner, _ := ownerIn(s, n)
		if owner == "" {
			continue
		}
		at, seen := known[owner]
		if !seen {
			out.Addresses = append(out.Addresses, owner)
			at = uint32(len(out.Addresses))
			known[owner] = at
		}
		out.Owners[n] = at
	}
	return out
}
