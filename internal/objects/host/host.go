package host

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Host runs the objects of one node. All methods are safe for concurrent use.
type Host struct {
	cfg      Config
	services *Services
	shards   []shard

	active   atomic.Int64 // activations
	waiting  atomic.Int64 // calls in queues
	tick     atomic.Int64 // of the coarse clock
	stopping atomic.Bool

	references references
	panics     *rate.Limiter // lines of the log about panics
	localCalls sync.Pool     // of *localCall; the host's own, for its calls belong to a test's virtual time, or to none

	sweep   chan struct{} // signals that there is something to sweep
	ctx     context.Context
	stop    context.CancelFunc
	workers workers
}

// panicsPerSecond is how many lines of the log a second are about panics of calls, after panicsAtOnce.
const panicsPerSecond, panicsAtOnce = 5, 20

// New makes a host; nothing runs before the first call.
func New(cfg Config, services *Services) *Host {
	h := &Host{cfg: cfg.withDefaults(), services: services, shards: make([]shard, cfg.Shards.Count()),
		panics: rate.NewLimiter(panicsPerSecond, panicsAtOnce), sweep: make(chan struct{}, 1)}
	for n := range h.shards {
		h.shards[n].number, h.shards[n].before = n, rand.Uint64()
		h.shards[n].turns = h.shards[n].before
	}
	h.localCalls.New = newLocalCall
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.spawn(h.sweepIdle)
	return h
}

// spawn runs f in a goroutine that Close waits for; it reports false, and does not, after Close.
func (h *Host) spawn(f func()) bool { return h.workers.run(f) }

// dropTurn ends a turn that could not be used, because the host is closed.
func (h *Host) dropTurn(w *waiter) {
	go h.finish(w, nil) // not here: the lock of the shard may be held
}

// MarkStopping: shards that leave from here on leave because the node stops.
func (h *Host) MarkStopping() { h.stopping.Store(true) }

// leftBehind is for how long Close waits for methods that go on although their context has ended.
const leftBehind = time.Second

// Close ends the host's goroutines and waits for them, but no longer than a second for methods that go on after
// their contexts have ended. The shards must have left before: what is active is not deactivated here.
// Calls in queues are refused.
func (h *Host) Close() {
	h.workers.stop()
	h.stop()
	for n := range h.shards {
		s := &h.shards[n]
		s.mu.Lock()
		for _, o := range s.objects {
			h.refuse(o, errMoved)
		}
		s.mu.Unlock()
	}
	ended := make(chan struct{})
	go func() {
		h.workers.wait()
		close(ended)
	}()
	last := time.NewTimer(leftBehind)
	defer last.Stop()
	select {
	case <-ended:
	case <-last.C:
		h.cfg.Logger.Warn("methods of objects go on after their contexts have ended; not waiting for them any longer",
			"turns", h.Running())
	}
}
