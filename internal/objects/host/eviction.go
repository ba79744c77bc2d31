package host

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/wait"
)

// evictor counts the activations of a host, and deactivates those that were not called for long or are too many.
type evictor struct {
	services    *Services
	idleAfter   time.Duration // for services that have none of their own
	maxActive   int64
	activations atomic.Int64
	tick        atomic.Int64 // the present tick of the coarse clock
	wake        wait.Signal  // signals that there are activations to sweep
	start       func()       // starts sweepServices once
}

func newEvictor(cfg Config, services *Services) *evictor {
	return &evictor{services: services, idleAfter: cfg.IdleAfter, maxActive: int64(cfg.MaxActive),
		wake: wait.NewSignal()}
}

// addActivation adds a new activation. The caller holds the lock of its shard.
func (e *evictor) addActivation(o *object) {
	o.service.metrics.active.Add(1)
	o.service.recent.addObject(o, e.tick.Load())
	e.start()
	e.wake.Send()
}

// touchObject records that an active object was called. The caller holds the lock of its shard.
func (e *evictor) touchObject(o *object) {
	if now := e.tick.Load(); o.lastUsed != now {
		o.service.recent.moveToFront(o, now)
	}
}

// sweepServices deactivates idle objects until ctx ends. It blocks while no object is active.
func (e *evictor) sweepServices(ctx context.Context) {
	period := e.tickPeriod()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	began := time.Now()
	for {
		if e.activations.Load() == 0 {
			select {
			case <-e.wake:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		e.tick.Store(int64(time.Since(began) / period))
		for _, s := range e.services.byName {
			e.sweepService(ctx, s, int64(orDefault(s.idleAfter, e.idleAfter)/period))
		}
	}
}

// tickPeriod returns the interval of the coarse clock. It is fine enough for the shortest IdleAfter.
func (e *evictor) tickPeriod() time.Duration {
	shortest := e.idleAfter
	for _, s := range e.services.byName {
		shortest = min(shortest, orDefault(s.idleAfter, e.idleAfter))
	}
	return max(time.Millisecond, min(shortest/8, time.Second))
}

// sweepService deactivates the objects of a service that were not called for more than that many ticks.
func (e *evictor) sweepService(ctx context.Context, s *service, ticks int64) {
	now := e.tick.Load()
	for ctx.Err() == nil {
		o, used := s.recent.oldestObject()
		if o == nil || now-used <= ticks {
			return
		}
		e.evictIdle(o, objects.Idle)
	}
}

// maxEvictTries limits the objects that makeRoom examines.
const maxEvictTries = 1024

// makeRoom counts one more activation. If that exceeds MaxActive, it evicts the least recently called idle
// object. It returns false if it finds none to evict; the activation is counted nevertheless.
func (e *evictor) makeRoom() bool {
	if e.activations.Add(1) <= e.maxActive {
		return true
	}
	for range maxEvictTries {
		var oldest *object
		var used int64
		for _, s := range e.services.byName {
			if o, t := s.recent.oldestObject(); o != nil && (oldest == nil || t < used) {
				oldest, used = o, t
			}
		}
		if oldest == nil {
			return false
		}
		if e.evictIdle(oldest, objects.Evicted) {
			return true
		}
	}
	return false
}

// evictIdle deactivates an object if it is idle, and reports whether it did. Otherwise the object counts as called now.
func (e *evictor) evictIdle(o *object, reason objects.Reason) bool {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.isIdle() && o.startDeactivation(reason) {
		return true
	}
	if o.phase == phaseActive {
		o.service.recent.moveToFront(o, e.tick.Load())
	}
	return false
}

// recentList is the list of a service's activations in the order of their last calls. A called object moves to the
// front at most once per tick of the coarse clock.
type recentList struct {
	mu          sync.Mutex
	front, back *object
}

func (r *recentList) addObject(o *object, tick int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushFront(o, tick)
}

func (r *recentList) removeObject(o *object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlinkObject(o)
}

func (r *recentList) moveToFront(o *object, tick int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlinkObject(o)
	r.pushFront(o, tick)
}

// oldestObject returns the least recently called object and the tick of its last call, or nil if there is none.
func (r *recentList) oldestObject() (o *object, used int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.back == nil {
		return nil, 0
	}
	return r.back, r.back.lastUsed
}

// pushFront puts an object at the front. The caller holds the lock.
func (r *recentList) pushFront(o *object, tick int64) {
	o.lastUsed, o.older, o.newer = tick, r.front, nil
	if r.front == nil {
		r.back = o
	} else {
		r.front.newer = o
	}
	r.front = o
}

// unlinkObject removes an object. The caller holds the lock.
func (r *recentList) unlinkObject(o *object) {
	if o.newer == nil {
		r.front = o.older
	} else {
		o.newer.older = o.older
	}
	if o.older == nil {
		r.back = o.newer
	} else {
		o.older.newer = o.newer
	}
	o.older, o.newer = nil, nil
}
