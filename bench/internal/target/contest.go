package target

import (
	"errors"
	"sync"
	"time"
)

// contest is what the lock guards that all want, if it works.
type contest struct {
	mu       sync.Mutex
	changed  *sync.Cond // another one holds it, or it is over
	n        int        // handovers wanted
	last     int        // who held it last
	released time.Time  // when that one began to give it back
	took     []time.Duration
	locks    int
	failed   bool
}

// over is true when it was handed over often enough. The mutex is held.
func (c *contest) over() bool { return c.failed || len(c.took) >= c.n }

// holds counts who has the lock now.
func (c *contest) holds(who int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locks++
	if !c.released.IsZero() && c.last != who && !c.over() {
		c.took = append(c.took, now.Sub(c.released))
	}
	c.last = who
	c.changed.Broadcast()
}

func (c *contest) releases() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = time.Now()
}

func (c *contest) fails() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
	c.changed.Broadcast()
}

// again reports whether who held it wants it again; after another one if it is polite.
func (c *contest) again(who int, polite bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for polite && c.last == who && !c.over() {
		c.changed.Wait()
	}
	return !c.over()
}

// handoversOf has all want one lock, again and again, until it was handed to another that often,
// and returns how long each handover took, and how often it was taken in a second. With courtesy
// each holds it for so long, and then lets another one go first.
func handoversOf(all []mutual, n int, courtesy time.Duration) ([]time.Duration, float64, error) {
	c := &contest{n: n, last: -1}
	c.changed = sync.NewCond(&c.mu)
	var wg sync.WaitGroup
	began, errs := time.Now(), make([]error, len(all))
	for i, m := range all {
		wg.Go(func() {
			for c.again(i, courtesy > 0) {
				if errs[i] = m.lock(); errs[i] == nil {
					c.holds(i, time.Now())
					time.Sleep(courtesy)
					c.releases()
					errs[i] = m.unlock()
				}
				if errs[i] != nil {
					c.fails()
				}
			}
		})
	}
	wg.Wait()
	return c.took, float64(c.locks) / time.Since(began).Seconds(), errors.Join(errs...)
}
