package pace

import (
	"context"
	"sync"
	"testing"
	"time"
)

const (
	meterEvery = 5 * time.Millisecond
	// meterWork makes one unit of work take about half a millisecond.
	meterWork = 500_000
	// idleRatio is the ratio of the mean to the best unit that an idle machine may have.
	idleRatio = 1.5
)

// Meter measures the load of the machine while a test runs, for the bounds of what the test takes. At short
// intervals it does a unit of work, which is done late and takes long if other programs use the processors. The
// best unit of a meter counts as that of an idle machine. All methods are safe for concurrent use.
//
// Not promised: that what a test does becomes slower at the same rate. Disks and networks are not measured. On a
// machine that was busy at every moment of the test, the meter reports too little.
type Meter struct {
	mu   sync.Mutex
	best time.Duration // 0 before the first unit
	sum  time.Duration // of the units of this lap
	n    int
}

// StartMeter starts a meter. It ends with the test.
func StartMeter(t testing.TB) *Meter {
	m := &Meter{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return m
}

func (m *Meter) run(ctx context.Context) {
	timer := time.NewTimer(meterEvery)
	defer timer.Stop()
	for value := uint64(1); ; {
		due := time.Now().Add(meterEvery)
		timer.Reset(meterEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for range meterWork {
			value = value*6364136223846793005 + 1442695040888963407
		}
		m.record(time.Since(due), value)
	}
}

// record counts a unit. The result of its work is an argument, so that the work is not optimized away.
func (m *Meter) record(took time.Duration, _ uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if took = max(took, 1); m.best == 0 || took < m.best {
		m.best = took
	}
	m.sum += took
	m.n++
}

// Slowdown returns how many times longer than on an idle machine work took since the last StartLap, or since the
// start of the meter. It is at least 1, and 1 on an idle machine.
func (m *Meter) Slowdown() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == 0 {
		return 1
	}
	return max(1, float64(m.sum)/float64(m.n)/float64(m.best)/idleRatio)
}

// StartLap makes the meter forget the load up to now.
func (m *Meter) StartLap() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum, m.n = 0, 0
}

// Scale returns a bound for this machine under its present load: the bound for an idle machine times the Slowdown.
func (m *Meter) Scale(idle time.Duration) time.Duration {
	return time.Duration(float64(idle) * m.Slowdown())
}
