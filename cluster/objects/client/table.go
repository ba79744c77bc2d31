package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// routeTable holds the latest routes. It implements route.Map. All methods are safe for concurrent use, but only one
// goroutine may call replaceRoutes.
type routeTable struct {
	current atomic.Pointer[routes]
	stall   time.Duration
	// stalled signals that calls have waited for other routes for as long as stall.
	stalled wait.Signal
	closed  chan struct{}

	mu          sync.Mutex
	since, last time.Time // of the current period of waiting: its begin, and when a call last waited
}

// routes are immutable.
type routes struct {
	prefix     string
	generation int64
	addresses  []string // of the nodes that own shards
	owners     []string // by shard
	leader     string
	nodes      map[string]int64 // incarnations of the nodes that may be connected to, by address; nil: not known
	silence    time.Duration    // the node counts as silent after this long without a message; 0: never
	replaced   chan struct{}    // closed when other routes replace these
}

func newRouteTable(stall time.Duration) *routeTable {
	return &routeTable{stall: stall, stalled: wait.NewSignal(), closed: make(chan struct{})}
}

// parseRoutes converts a node's report to routes. It returns an error if the report is invalid.
func parseRoutes(m *objectspb.WatchRoutesResponse) (*routes, error) {
	if len(m.GetOwners()) == 0 || len(m.GetOwners()) > shard.MaxCount {
		return nil, fmt.Errorf("it reports a map of %d shards", len(m.GetOwners()))
	}
	r := &routes{prefix: m.GetPrefix(), generation: m.GetGeneration(), addresses: m.GetAddresses(),
		owners: make([]string, len(m.GetOwners())), leader: m.GetLeader(), replaced: make(chan struct{})}
	if len(m.GetNodes()) > 0 {
		r.nodes = make(map[string]int64, len(m.GetNodes()))
	}
	for _, n := range m.GetNodes() {
		r.nodes[n.GetAddress()] = n.GetIncarnation()
	}
	if m.GetHeartbeat() > 0 {
		r.silence = silenceOf(time.Duration(m.GetHeartbeat()))
	}
	for n, at := range m.GetOwners() {
		switch {
		case int64(at) > int64(len(r.addresses)):
			return nil, fmt.Errorf("it reports an owner of shard %d, and no address for it", n)
		case at > 0:
			r.owners[n] = r.addresses[at-1]
		}
	}
	return r, nil
}

// sameRoutes reports whether both routes are the same for calls and for the resolver.
func (r *routes) sameRoutes(other *routes) bool {
	return other != nil && r.generation == other.generation && r.leader == other.leader &&
		slices.Equal(r.owners, other.owners) && maps.Equal(r.nodes, other.nodes)
}

// mayHaveProcess reports whether there may be a process at an address.
func (r *routes) mayHaveProcess(address string) bool {
	_, ok := r.nodes[address]
	return ok || r.nodes == nil
}

// processGone reports whether the process at an address is no longer the one in before, or is absent. If there is a
// process, it reports false unless both reports give an incarnation.
func (r *routes) processGone(address string, before *routes) bool {
	if !r.mayHaveProcess(address) {
		return true
	}
	was, known := before.nodes[address]
	return known && r.nodes != nil && r.nodes[address] != was
}

// replaceRoutes replaces the routes and reports whether they changed.
func (t *routeTable) replaceRoutes(next *routes) bool {
	former := t.current.Load()
	if next.sameRoutes(former) {
		return false
	}
	t.mu.Lock()
	t.since = time.Now()
	t.mu.Unlock()
	t.current.Store(next)
	if former != nil {
		close(former.replaced)
	}
	return true
}

// Shard implements route.Map.
func (t *routeTable) Shard(key string) (int, bool) {
	return shard.Of(key, len(t.current.Load().owners)), true
}

// Owner implements route.Map.
func (t *routeTable) Owner(n int) (address string, generation int64) {
	return t.current.Load().ownerOf(n)
}

func (r *routes) ownerOf(n int) (address string, generation int64) {
	if n >= len(r.owners) { // the cluster was created anew with fewer shards
		return "", r.generation
	}
	return r.owners[n], r.generation
}

// Former implements route.Map. No turn waits for the calls of a program that is not a node.
func (t *routeTable) Former(int) string { return "" }

// AwaitChange implements route.Map.
func (t *routeTable) AwaitChange(ctx context.Context, n int, seen route.SeenOwner) error {
	look := time.NewTicker(t.stall)
	defer look.Stop()
	for {
		r := t.current.Load()
		if seen.ChangedBy(r.ownerOf(n)) {
			return nil
		}
		t.noteWait()
		select {
		case <-r.replaced:
		case <-look.C:
		case <-t.closed:
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("no other routes than of generation %d have come: %w", r.generation, contextError(ctx))
		}
	}
}

// noteWait notes that a call waits for other routes, and signals if that has lasted too long. Repeated calls
// between which the routes have not changed count as one that waits.
func (t *routeTable) noteWait() {
	now := time.Now()
	t.mu.Lock()
	if now.Sub(t.last) > 2*t.stall {
		t.since = now
	}
	t.last = now
	long := now.Sub(t.since) >= t.stall
	t.mu.Unlock()
	if long {
		t.stalled.Send()
	}
}
