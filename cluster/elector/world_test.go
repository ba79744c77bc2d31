package elector

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// The model has standings of several processes, a store that carries requests out at any time, lost answers,
// processes that stand still, and clocks that disagree. The next event is drawn at random, so one seed is one
// schedule.

const (
	worldLease   = 10 * time.Second
	worldPeriod  = 2 * time.Second
	worldTimeout = 2 * time.Second
)

// fault is a known mistake that the model must find.
type fault string

const (
	fromReceipt     fault = "the deadline counts from when the answer came"
	fromAsking      fault = "a record counts as seen when it was asked for"
	holdersClock    fault = "expiry is judged by the holder's clock"
	readBackExtends fault = "a renewal that was found by reading counts from the reading"
	oneName         fault = "who has the holder's name is the holder"
	blindWrite      fault = "the store reads, then writes"
	numberKept      fault = "a new term of the same holder keeps the number"
	noLocalDeadline fault = "a leader leads until it hears of another one"
	monotonicOnly   fault = "the deadline is by the monotonic clock alone"
	wallOnly        fault = "the deadline is by the wall clock alone"
	leavesInFlight  fault = "who leaves does not write over what it sent and nobody answered"
)

var faults = []fault{fromReceipt, fromAsking, holdersClock, readBackExtends, oneName, blindWrite, numberKept,
	noLocalDeadline, monotonicOnly, wallOnly, leavesInFlight}

var errUnsafe = errors.New("a promise is broken")

// host holds the clocks of one process.
type host struct {
	mono, wall float64 // in nanoseconds
	rate       float64
	suspends   bool // its wall clock is right, and its monotonic clock stands still at times
	asleep     time.Duration
	stopped    time.Duration // the process stands still while its clocks go on
}

func (h *host) now() deadline.Instant {
	return deadline.Instant{Mono: int64(h.mono), Wall: int64(h.wall)}
}

func (h *host) pass(d time.Duration) {
	h.wall += float64(d) * h.rate
	awake := max(0, d-h.asleep)
	h.mono += float64(awake) * h.rate
	h.asleep, h.stopped = max(0, h.asleep-d), max(0, h.stopped-d)
}

// request is a request in flight. done: the store has carried it out; lost: its answer will never come.
type request struct {
	step       step
	sent       deadline.Instant
	done, lost bool
	record     Lease
	err        error
}

type process struct {
	host
	s        leaseState
	awaits   *request
	since    deadline.Instant // start of awaits
	stopping bool
}

type world struct {
	draw     func(n int) int
	fault    fault
	record   Lease // without a Version if there is no record
	writes   int
	under    []*request
	all      []*process
	token    int64 // of the newest term
	terms    int
	wrong    error // the violation that was found
	instance int
}

func newWorld(draw func(n int) int, f fault) *world {
	w := &world{draw: draw, fault: f}
	for i := range 3 {
		p := &process{host: host{mono: float64(w.between(0, 1000)) * 1e9, wall: float64(w.between(5000, 5060)) * 1e9,
			rate: 1 + float64(w.between(-4, 4))/1000, suspends: i == 0}}
		w.restart(p)
		w.all = append(w.all, p)
	}
	return w
}

func (w *world) between(a, b int) int { return a + w.draw(b-a+1) }

// restart replaces a process that died with a new one. Two processes have the same name.
func (w *world) restart(p *process) {
	w.instance++
	instance := fmt.Sprint("instance ", w.instance)
	if w.fault == oneName {
		instance = "one"
	}
	now := p.now()
	*p = process{host: p.host, s: leaseState{id: "name", instance: instance, duration: worldLease, period: worldPeriod,
		since: now, next: now.Mono}}
}

// run lets a number of events happen and then leaves the processes alone until one leads. It returns the
// violation that was found.
func (w *world) run(steps int) error {
	for range steps {
		passes := []time.Duration{0, 0, time.Millisecond, 30 * time.Millisecond, 200 * time.Millisecond,
			time.Second}[w.draw(6)]
		for _, p := range w.all {
			p.pass(passes)
		}
		w.something()
		if err := w.check(); err != nil {
			return fmt.Errorf("%w: %w", errUnsafe, err)
		}
	}
	for _, p := range w.all {
		p.asleep, p.stopped = 0, 0
	}
	for range 4000 {
		for _, p := range w.all {
			p.pass(10 * time.Millisecond)
			p.stopping = false
			w.turn(p)
			w.carryOut(len(w.under) - 1)
			w.answer(p)
		}
		if err := w.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(w.all, func(p *process) bool { return p.s.leads(p.now()) }) {
			return nil
		}
	}
	return fmt.Errorf("nobody leads when all is well again")
}

func (w *world) something() {
	p := w.all[w.draw(len(w.all))]
	switch what := w.draw(40); {
	case what < 8:
		w.turn(p)
	case what < 16: // all goes well for once
		w.turn(p)
		w.carryOut(slices.Index(w.under, p.awaits))
		w.answer(p)
	case what < 24:
		if len(w.under) > 0 {
			w.carryOut(w.draw(len(w.under)))
		}
	case what < 32:
		w.answer(p)
	case what < 33:
		if p.awaits != nil {
			p.awaits.lost = true
		}
	case what < 34:
		p.stopped = time.Duration(w.between(0, 30)) * time.Second
	case what < 35 && p.suspends:
		p.asleep = time.Duration(w.between(0, 30)) * time.Second
		p.stopped = max(p.stopped, p.asleep)
	case what < 36 && !p.suspends:
		p.wall += float64(w.between(-60, 60)) * 1e9
	case what < 37:
		p.stopping = true
	case what < 38 && w.draw(4) == 0:
		w.restart(p)
	}
}
