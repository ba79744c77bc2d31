package simulation

import (
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// world is one run with everything in it. Calls from the product or from etcd use the locks of faults and checks,
// which are locked after Mu and never before it.
type world struct {
	*schedule.World
	ttl            time.Duration
	keys           state.Keys
	hosts          []*host
	shards         int           // number of shards
	window         time.Duration // of the planner
	crashDetection bool          // crash detection is on
	silence        time.Duration // silence time-out of the members; 0 if they do not accuse others of silence
	drift          time.Duration // largest drift of a clock, in parts per million

	judging atomic.Bool // stopped clocks are read as if their process continued now
	wake    wait.Signal // signals an event that the checks must examine
	ended   chan struct{}
	wg      sync.WaitGroup // processes

	faults faultState
	checks checks
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
		w.Mu.Lock()
		if !w.Over {
			w.checks.checkClaims(w)
		}
		w.Mu.Unlock()
	}
}

// endRun ends the run. The caller holds w.Mu.
func (w *world) endRun() {
	if !w.Over {
		w.Over = true
		close(w.ended)
	}
}

// killProcesses kills the remaining processes and waits for them.
func (w *world) killProcesses() {
	w.Mu.Lock()
	for _, h := range w.hosts {
		if h.process != nil {
			h.process.killProcess(false)
		}
	}
	w.Mu.Unlock()
	w.wg.Wait()
	w.Etcd.Close()
}

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
