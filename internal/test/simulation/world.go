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
)

// world is one run: everything there is. Events happen one after the other, with mu held; what the product calls
// or etcd reports goes by the locks of faults and checks, which are taken after mu, and never before it.
type world struct {
	seed    uint64
	began   time.Time
	ttl     time.Duration
	keys    state.Keys
	etcd    *modeletcd.Etcd
	members int // of etcd
	hosts   []*host
	shards  int           // how many there are
	window  time.Duration // of the planner
	detect  bool          // crash detection is on

	judging atomic.Bool   // the clocks of who stands still are read as they would be if it went on now
	wake    chan struct{} // something happened that the checks must look at
	ended   chan struct{}
	wg      sync.WaitGroup // processes

	catalogue []fault

	mu     sync.Mutex
	rand   *rand.Rand // the schedule's
	over   bool
	faults faults
	checks checks
	log    transcript
}

// now is how long the run has lasted.
func (w *world) now() time.Duration { return time.Since(w.began) }

// after makes an event happen after d.
func (w *world) after(d time.Duration, do func()) {
	time.AfterFunc(max(d, 0), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			do()
			w.look()
		}
	})
}

// alter changes what the checks look at too: with both locks held, so that either is enough to read it.
func (w *world) alter(change func()) {
	w.checks.mu.Lock()
	defer w.checks.mu.Unlock()
	change()
}

// look has the checks look at what is so now.
func (w *world) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run lets things happen until the run is over, and has everything ended then.
func (w *world) run() {
	for {
		select {
		case <-w.wake:
		case <-w.ended:
			w.end()
			return
		}
		synctest.Wait() // what happens at this instant has happened
		w.mu.Lock()
		if !w.over {
			w.checks.look(w)
		}
		w.mu.Unlock()
	}
}

// finish ends the run. The lock is held.
func (w *world) finish() {
	if !w.over {
		w.over = true
		close(w.ended)
	}
}

// end kills the processes that are left, and waits for them.
func (w *world) end() {
	w.mu.Lock()
	for _, h := range w.hosts {
		if h.process != nil {
			h.process.die(false)
		}
	}
	w.mu.Unlock()
	w.wg.Wait()
	w.etcd.Close()
}

// between draws a duration from a to b, to the nanosecond: so that hardly two things happen at once.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

func (w *world) between(a, b time.Duration) time.Duration { return between(w.rand, a, b) }

// chance is true in one of n cases.
func (w *world) chance(n int) bool { return w.rand.IntN(n) == 0 }

// pick draws one of s.
func pick[T any](w *world, s []T) T { return s[w.rand.IntN(len(s))] }

// host is the one at address.
func (w *world) host(address string) *host {
	for _, h := range w.hosts {
		if h.address == address {
			return h
		}
	}
	return nil
}

// leader is a process that leads, nil if none does.
func (w *world) leader() *process {
	for _, h := range w.hosts {
		if p := h.process; p != nil && p.leads() {
			return p
		}
	}
	return nil
}

// newRand is a source of chance of the seed's, one for each stream of draws.
func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// streamOf numbers what is drawn for somebody, so that no draw depends on what others draw.
func streamOf(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return h.Sum64()
}
