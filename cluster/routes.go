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

// routes are who owns what, from the node's own snapshot. It implements route.Map and gateway.Routes.
type routes struct {
	c    *Cluster
	view *watchcache.Mirror

	mu      sync.Mutex
	seen    *state.Snapshot
	nodes   departures                     // as of that
	now     *objectspb.WatchRoutesResponse // made of both when it is asked for; nil: it was not
	changed chan struct{}                  // closed when there is something else to be seen
}

func newRoutes(c *Cluster, view *watchcache.Mirror) *routes {
	return &routes{c: c, view: view, changed: make(chan struct{})}
}

// shardMap is the map as this node knows it, nil without one.
func (r *routes) shardMap() *sharding.Map {
	return r.view.Snapshot().Map()
}

// Shard implements route.Map.
func (r *routes) Shard(key string) (int, bool) {
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
func (r *routes) Owner(n int) (address string, generation int64) {
	return ownerIn(r.view.Snapshot(), n)
}

// ownerIn is the owner of a shard that calls go to: none if it is gone, though the map names it still. The next map
// comes at once; a connection to a process that stands still would be accepted meanwhile, and not answered.
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
func (r *routes) Former(n int) string {
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
func (r *routes) AwaitChange(ctx context.Context, n int, seen route.Seen) error {
	_, err := r.view.Wait(ctx, func(s *state.Snapshot) bool { return seen.Changed(ownerIn(s, n)) })
	if err != nil && r.c.over.Load() {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}

// present reports whether there is a member at an address.
func (r *routes) present(address string) bool { return r.view.Snapshot().Member(address) != nil }

// Routes implements gateway.Routes.
func (r *routes) Routes() (*objectspb.WatchRoutesResponse, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil && r.seen != nil {
		r.now = routesOf(r.seen, r.c.cfg.EtcdPrefix, r.nodes)
	}
	return r.now, r.changed
}

// run keeps what Routes returns current until ctx ends, and calls drop for addresses whose processes are gone: a call
// to one that stands still would otherwise wait for its deadline.
func (r *routes) run(ctx context.Context, drop func(address string)) {
	var seen stoppingNodes
	sub := r.view.Subscribe(func(before, now *state.Snapshot) bool {
		return seen.concerns(before, now) || before.ShardMap != now.ShardMap ||
			before.Leader().Address != now.Leader().Address
	})
	defer sub.Close()
	due := time.NewTimer(0)
	defer due.Stop()
	var known departures
	for {
		select {
		case <-sub.C:
		case <-due.C:
		case <-ctx.Done():
			return
		}
		s := r.view.Snapshot()
		if s == nil {
			continue // the first one is on its way
		}
		next, gone, again := known.look(s, seen.take(), time.Now())
		known = next
		for _, address := range gone {
			drop(address)
		}
		r.publish(s, known)
		if again > 0 {
			due.Reset(again)
		}
	}
}

// publish has Routes return what follows from a snapshot.
func (r *routes) publish(s *state.Snapshot, nodes departures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen, r.nodes, r.now = s, nodes, nil
	close(r.changed)
	r.changed = make(chan struct{})
}

// routesOf is a snapshot for who is no node; nil while there is no map.
func routesOf(s *state.Snapshot, prefix string, seen departures) *objectspb.WatchRoutesResponse {
	m := s.Map()
	if m == nil {
		return nil
	}
	out := &objectspb.WatchRoutesResponse{Prefix: prefix, Generation: m.Generation(), Owners: make([]uint32, m.Shards()),
		Leader: s.Leader().Address, Nodes: seen.nodes()}
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
