package host

import (
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/objects"
)

// recentList is the list of a service's activations in the order of their last calls. A called object moves to the
// front at most once per tick of the coarse clock.
type recentList struct {
	mu             sync.Mutex
	newest, oldest *object
}

// addRecent puts a new activation at the front. The caller holds the lock of its shard.
func (h *Host) addRecent(o *object) {
	r := &o.service.recent
	r.mu.Lock()
	o.lastUsed = h.tick.Load()
	r.pushFront(o)
	r.mu.Unlock()
	h.wakeSweeper.Send()
}

// touchObject records that an object was called. The caller holds the lock of its shard.
func (h *Host) touchObject(o *object) {
	if now := h.tick.Load(); o.lastUsed != now && o.phase == phaseActive {
		h.toFront(o, now)
	}
}

func (h *Host) toFront(o *object, now int64) {
	r := &o.service.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(o)
	o.lastUsed = now
	r.pushFront(o)
}

// removeRecent removes an object from the list. The caller holds the lock of its shard.
func (h *Host) removeRecent(o *object) {
	r := &o.service.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(o)
}

func (r *recentList) pushFront(o *object) {
	o.older, o.newer = r.newest, nil
	if r.newest == nil {
		r.oldest = o
	} else {
		r.newest.newer = o
	}
	r.newest = o
}

func (r *recentList) remove(o *object) {
	if o.newer == nil {
		r.newest = o.older
	} else {
		o.newer.older = o.older
	}
	if o.older == nil {
		r.oldest = o.newer
	} else {
		o.older.newer = o.newer
	}
	o.older, o.newer = nil, nil
}

// leastRecent returns the least recently called object and the tick of its last call, or nil if there is none.
func (r *recentList) leastRecent() (o *object, used int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.oldest == nil {
		return nil, 0
	}
	return r.oldest, r.oldest.lastUsed
}

// markUsed puts an object that is in use at the front.
func (h *Host) markUsed(o *object) {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.phase == phaseActive {
		h.toFront(o, h.tick.Load())
	}
}

// sweepIdle deactivates idle objects until the host is closed. It blocks while no object is active.
func (h *Host) sweepIdle() {
	period := h.sweepPeriod()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	began := time.Now()
	for {
		if h.activations.Load() == 0 {
			select {
			case <-h.wakeSweeper:
			case <-h.ctx.Done():
				return
			}
		}
		select {
		case <-ticker.C:
		case <-h.ctx.Done():
			return
		}
		h.tick.Store(int64(time.Since(began) / period))
		for _, s := range h.services.byName {
			h.sweepService(s, int64(orDefault(s.idleAfter, h.cfg.IdleAfter)/period))
		}
	}
}

// sweepPeriod returns the interval of the coarse clock. It is fine enough for the shortest IdleAfter.
func (h *Host) sweepPeriod() time.Duration {
	shortest := h.cfg.IdleAfter
	for _, s := range h.services.byName {
		shortest = min(shortest, orDefault(s.idleAfter, h.cfg.IdleAfter))
	}
	return max(time.Millisecond, min(shortest/8, time.Second))
}

// sweepService deactivates the objects of a service that were not called for more than that many ticks.
func (h *Host) sweepService(s *service, ticks int64) {
	now := h.tick.Load()
	for h.ctx.Err() == nil {
		o, used := s.recent.leastRecent()
		if o == nil || now-used <= ticks {
			return
		}
		if !h.evictIdle(o, objects.Idle) {
			h.markUsed(o)
		}
	}
}

// evictIdle deactivates an object if it is idle, and reports whether it did.
func (h *Host) evictIdle(o *object, reason objects.Reason) bool {
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	return o.isIdle() && h.deactivateObject(o, reason)
}

// maxEvictTries limits the objects that makeRoom examines.
const maxEvictTries = 1024

// makeRoom counts one more activation. If that exceeds MaxActive, it evicts the least recently called idle
// object. It returns false if it finds none to evict; the activation is counted nevertheless.
func (h *Host) makeRoom() bool {
	if h.activations.Add(1) <= int64(h.cfg.MaxActive) {
		return true
	}
	for range maxEvictTries {
		var oldest *object
		var used int64
		for _, s := range h.services.byName {
			if o, t := s.recent.leastRecent(); o != nil && (oldest == nil || t < used) {
				oldest, used = o, t
			}
		}
		if oldest == nil {
			return false
		}
		if h.evictIdle(oldest, objects.Evicted) {
			return true
		}
		h.markUsed(oldest)
	}
	return false
}
