package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/internal/state"
)

// world is one run: everything there is, and what is going to happen.
type world struct {
	*rand.Rand
	seed  uint64
	now   time.Duration // true time, which nobody in the world knows
	queue queue
	ttl   time.Duration
	keys  state.Keys
	etcd  *etcd
	hosts []*host

	shards int           // how many there are
	window time.Duration // Sharding.Window

	faults faults
	checks checks
	log    *transcript // nil: nobody listens
	over   bool
}

// event is something that will happen.
type event struct {
	at  time.Duration
	seq uint64   // events at the same instant happen in the order in which they were made
	p   *process // whose step it is; nil: etcd's, the network's or a fault's
	due int64    // of a timer: not before the process's monotonic clock shows this
	do  func()
}

// at makes do happen at an instant.
func (w *world) at(t time.Duration, do func()) { w.queue.push(event{at: t, do: do}) }

// after makes do happen after d.
func (w *world) after(d time.Duration, do func()) { w.queue.push(event{at: w.now + d, do: do}) }

// manyEvents is far more than happens in any schedule: the one that makes as many goes round
// in circles.
const manyEvents = 100_000

// run lets things happen until the run is over, or nothing is left to happen.
func (w *world) run() {
	for !w.over && len(w.queue.heap) > 0 {
		ev := w.queue.pop()
		if ev.at < w.now {
			panic("simulation: something was to happen in the past")
		}
		w.now = ev.at
		if p := ev.p; p != nil && !p.mayStep(ev) {
			continue
		}
		if w.queue.seq > manyEvents {
			w.checks.fail("P6", "something goes round in circles")
		}
		ev.do()
		w.checks.step(w)
	}
}

// between draws a duration from a to b.
func (w *world) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(w.Int64N(int64(b-a)))
}

// chance is true in one of n cases.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

// pick draws one of s.
func pick[T any](w *world, s []T) T { return s[w.IntN(len(s))] }

// queue is a heap of events.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) push(ev event) {
	q.seq++
	ev.seq = q.seq
	h := append(q.heap, ev)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !before(&h[i], &h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	q.heap = h
}

func (q *queue) pop() event {
	h := q.heap
	top := h[0]
	last := len(h) - 1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			break
		}
		if next+1 < last && before(&h[next+1], &h[next]) {
			next++
		}
		if !before(&h[next], &h[i]) {
			break
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
	q.heap = h
	return top
}

func before(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }
