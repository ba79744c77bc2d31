package target

import (
	"errors"
	"sync"
	"time"
)

// contest is the state that the contested lock guards.
type contest struct {
	mu       sync.Mutex
	changed  *sync.Cond // signals that another contender holds it, or that it is over
	n        int        // number of handovers to measure
	last     int        // the last holder
	released time.Time  // when the last holder began to release
	took     []time.Duration
	locks    int
	failed   bool
}

// over reports whether there were enough handovers, or a failure. The caller holds mu.
func (c *contest) over() bool { return c.failed || len(c.took) >= c.n }

// holds records that the contender has acquired the lock.
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

// again reports whether the contender should acquire the lock again. If polite, it first waits until another
// one has held it.
func (c *contest) again(who int, polite bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for polite && c.last == who && !c.over() {
		c.changed.Wait()
	}
	return !c.over()
}

// handoversOf has all contenders acquire one lock repeatedly until it was handed over n times. It returns the
// durations of the handovers and the acquisitions per second. With courtesy, each contender holds the lock for
// that time and then lets another one go first.
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
