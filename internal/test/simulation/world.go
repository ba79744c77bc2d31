package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/wait"
)

// world is one run with everything in it. Events happen one after the other, with mu held. Calls from the
// product or from etcd use the locks of faults and checks, which are locked after mu and never before it.
type world struct {
	seed           uint64
	began          time.Time
	ttl            time.Duration
	keys           state.Keys
	etcd           *modeletcd.Etcd
	members        int // of etcd
	hosts          []*host
	shards         int           // number of shards
	window         time.Duration // of the planner
	crashDetection bool          // crash detection is on

	judging atomic.Bool // stopped clocks are read as if their process continued now
	wake    wait.Signal // signals an event that the checks must examine
	ended   chan struct{}
	wg      sync.WaitGroup // processes

	catalogue []faultKind

	mu     sync.Mutex
	rand   *rand.Rand // the schedule's
	over   bool
	faults faultState
	checks checks
	log    transcript
}

// now returns the time since the run began.
func (w *world) now() time.Duration { return time.Since(w.began) }

// after schedules an event after d.
func (w *world) after(d time.Duration, do func()) {
	time.AfterFunc(max(d, 0), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			do()
			w.wakeChecks()
		}
	})
}

// alter changes state that the checks read too. It holds both locks, so either one suffices for reading.
func (w *world) alter(change func()) {
	w.checks.mu.Lock()
	defer w.checks.mu.Unlock()
	change()
}

// wakeChecks signals the checks to examine the present state.
func (w *world) wakeChecks() {
	w.wake.Send()
}

// runSchedule processes events until the run is over, and then ends everything.
func (w *world) runSchedule() {
	for {
		select {
		case <-w.wake:
		case <-w.ended:
			w.killProcesses()
			return
		}
		synctest.Wait() // all events of this instant have happened
		w.mu.Lock()
		if !w.over {
			w.checks.checkClaims(w)
		}
		w.mu.Unlock()
	}
}

// endRun ends the run. The caller holds w.mu.
func (w *world) endRun() {
	if !w.over {
		w.over = true
		close(w.ended)
	}
}

// killProcesses kills the remaining processes and waits for them.
func (w *world) killProcesses() {
	w.mu.Lock()
	for _, h := range w.hosts {
		if h.process != nil {
			h.process.killProcess(false)
		}
	}
	w.mu.Unlock()
	w.wg.Wait()
	w.etcd.Close()
}

// drawBetween draws a duration from a to b, with nanosecond resolution so that events rarely coincide.
func drawBetween(r *rand.Rand, a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

func (w *world) drawBetween(a, b time.Duration) time.Duration { return drawBetween(w.rand, a, b) }

// drawChance returns true in one of n cases.
func (w *world) drawChance(n int) bool { return w.rand.IntN(n) == 0 }

// pickOne draws one element of s.
func pickOne[T any](w *world, s []T) T { return s[w.rand.IntN(len(s))] }

// hostAt returns the host at an address, or nil.
func (w *world) hostAt(address string) *host {
	for _, h := range w.hosts {
		if h.address == address {
			return h
		}
	}
	return nil
}

// leadingProcess returns a process that leads, or nil if none does.
func (w *world) leadingProcess() *process {
	for _, h := range w.hosts {
		if p := h.process; p != nil && p.leads() {
			return p
		}
	}
	return nil
}

// newRand returns a random source of the seed for one stream of draws.
func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// streamOf returns a stream number for the parts. Separate streams make draws independent of each other.
func streamOf(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}
