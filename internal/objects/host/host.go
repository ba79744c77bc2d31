package host

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/wait"
)

// Host runs the objects of one node. All methods are safe for concurrent use.
type Host struct {
	cfg      Config
	services *Services
	shards   []shard
	waiting  atomic.Int64 // calls in queues
	stopping atomic.Bool
	evictor  *evictor
	failures *failures

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	workers workers
}

// New returns a host. It runs nothing before the first call.
func New(cfg Config, services *Services) *Host {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	h := &Host{cfg: cfg, services: services, shards: make([]shard, cfg.Shards.Count()),
		evictor: newEvictor(cfg, services), failures: newFailures(cfg.Logger)}
	for n := range h.shards {
		s := &h.shards[n]
		s.host, s.number, s.ids.last = h, n, rand.Uint64()
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.evictor.start = sync.OnceFunc(func() { h.workers.run(func() { h.evictor.sweepServices(h.ctx) }) })
	return h
}

// MustRunHere reports whether a call must be made on this node although the map names another owner. That is so if a
// turn in the call's own shard waits for it, because the shard does not leave this node before that turn has
// ended. It is also so for calls of Deactivated to its own shard, which this node refuses.
func (h *Host) MustRunHere(n int, chain []uint64) bool {
	return len(chain) > 0 && h.shards[n].mustRunHere(chain)
}

// Leaving implements consensusmanager.Residents. It makes queued calls move on without waiting for running
// ones.
func (h *Host) Leaving(n int) { h.shards[n].markLeaving() }

// Occupied implements consensusmanager.Residents.
func (h *Host) Occupied(n int) bool {
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live > 0
}

// Leave implements consensusmanager.Residents. It deactivates all objects of a shard.
func (h *Host) Leave(ctx context.Context, n int) { h.shards[n].leaveShard(ctx) }

// MarkStopping notes that the node stops. Shards that leave from then on give the reason [objects.Stopping].
func (h *Host) MarkStopping() { h.stopping.Store(true) }

// Close ends the host's goroutines and waits for them, but at most a second for methods that continue after
// their contexts have ended. It refuses queued calls. All shards must have left before, because Close
// deactivates no objects.
func (h *Host) Close() {
	h.workers.stop()
	h.stop()
	for n := range h.shards {
		s := &h.shards[n]
		s.mu.Lock()
		s.refuseAll()
		s.mu.Unlock()
	}
	if !wait.JoinFunc(h.workers.wait, wait.JoinLimit) {
		h.cfg.Logger.Warn("methods of objects go on after their contexts have ended; not waiting for them any longer",
			"turns", h.RunningTurns())
	}
}
