package host

import (
	"context"
	"math/rand/v2"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/goverse/goverse/internal/wait"
)

// Host runs the objects of one node. All methods are safe for concurrent use.
type Host struct {
	cfg      Config
	services *Services
	shards   []shard

	activations atomic.Int64 // activations
	waiting     atomic.Int64 // calls in queues
	tick        atomic.Int64 // the present tick of the coarse clock
	stopping    atomic.Bool

	references   references
	panicLimiter *rate.Limiter // limits log lines about panics

	wakeSweeper wait.Signal // signals that there are activations to sweep
	ctx         context.Context
	stop        context.CancelFunc
	workers     workers
}

// panicsPerSecond limits the log lines about panics of calls; panicsAtOnce is the burst.
const panicsPerSecond, panicsAtOnce = 5, 20

// New returns a host. It runs nothing but its sweeper before the first call.
func New(cfg Config, services *Services) *Host {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	h := &Host{cfg: cfg, services: services, shards: make([]shard, cfg.Shards.Count()),
		panicLimiter: rate.NewLimiter(panicsPerSecond, panicsAtOnce), wakeSweeper: wait.NewSignal()}
	for n := range h.shards {
		h.shards[n].number, h.shards[n].turns = n, rand.Uint64()
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.spawn(h.sweepIdle)
	return h
}

// spawn runs f in a goroutine that Close waits for. After Close it does not run f and returns false.
func (h *Host) spawn(f func()) bool { return h.workers.run(f) }

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
		for _, o := range s.objects {
			h.refuseWaiters(o, errMoved)
		}
		s.mu.Unlock()
	}
	if !wait.JoinFunc(h.workers.wait, wait.JoinLimit) {
		h.cfg.Logger.Warn("methods of objects go on after their contexts have ended; not waiting for them any longer",
			"turns", h.RunningTurns())
	}
}
