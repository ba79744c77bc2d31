package silence

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// The world of one schedule: a member, its watchers, etcd and the network between them, in virtual time. It is a model:
// the decisions are the real ones (Judge, deadline.Proofs), and what carries them out is written down here as short as
// possible, with every delay and every loss drawn at random.
type world struct {
	rand   *rand.Rand
	now    time.Duration // true time
	events eventQueue
	count  int

	timeout time.Duration
	hurdle  time.Duration // the most that a message takes, mostly
	etcd    *store
	member  *member
	watch   []*watcher
	failure string
	log     *strings.Builder // nil: not kept
	happens map[string]int
}

type event struct {
	at time.Duration
	n  int // events of one instant happen in the order in which they were made
	do func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func (w *world) after(d time.Duration, do func()) {
	w.count++
	heap.Push(&w.events, event{w.now + max(d, 0), w.count, do})
}

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rand.Int64N(int64(b-a)+1))
}

func (w *world) oneIn(n int) bool { return w.rand.IntN(n) == 0 }

func (w *world) note(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "%10v %s\n", w.now.Round(time.Millisecond), fmt.Sprintf(format, args...))
	}
}

func (w *world) fail(format string, args ...any) {
	w.note("BROKEN "+format, args...)
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

// run processes events for so long, and checks the member after each.
func (w *world) run(d time.Duration) {
	for w.events.Len() > 0 && w.failure == "" {
		e := heap.Pop(&w.events).(event)
		if e.at > d {
			return
		}
		w.now = e.at
		e.do()
		w.check()
	}
}

// check is the promise: a member that etcd has removed does not claim, and never does again.
func (w *world) check() {
	m := w.member
	if m.incarnation != 0 && w.etcd.member != m.incarnation && m.claims() {
		w.fail("the member claims, though it was removed")
	}
}

// proc is a process with its own clock. It may stand still.
type proc struct {
	w      *world
	name   string
	rate   float64
	stands bool
	dead   bool
	waits  []func() // what happens to it when it continues
}

func newProc(w *world, name string) proc {
	return proc{w: w, name: name, rate: 1 + 0.02*(w.rand.Float64()-0.5)}
}

// clock returns the reading of its monotonic clock.
func (p *proc) clock() time.Duration { return time.Second + time.Duration(float64(p.w.now)*p.rate) }

func (p *proc) instant() deadline.Instant {
	return deadline.Instant{Mono: int64(p.clock()), Wall: int64(p.clock())}
}

// happen lets something happen to the process, now or when it continues.
func (p *proc) happen(do func()) {
	switch {
	case p.dead:
	case p.stands:
		p.waits = append(p.waits, do)
	default:
		do()
	}
}

// every does something again and again while the process runs.
func (p *proc) every(d time.Duration, do func()) {
	p.w.after(time.Duration(float64(d)/p.rate), func() {
		p.happen(func() {
			do()
			p.every(d, do)
		})
	})
}

func (p *proc) pause(d time.Duration) {
	if p.stands || p.dead {
		return
	}
	p.w.note("%s stands still for %v", p.name, d)
	p.stands = true
	p.w.after(d, func() {
		p.w.note("%s continues", p.name)
		p.stands = false
		waits := p.waits
		p.waits = nil
		p.w.rand.Shuffle(len(waits), func(i, j int) { waits[i], waits[j] = waits[j], waits[i] })
		for _, do := range waits {
			if p.stands {
				p.waits = append(p.waits, do)
			} else {
				do()
			}
		}
	})
}

// path carries messages one way, in order, like a stream: what is sent while it is blocked arrives when it is free
// again.
type path struct {
	w       *world
	blocked bool
	slow    time.Duration
	last    time.Duration // no message arrives before
	queue   []func()
}

func (p *path) send(arrive func()) {
	if p.blocked {
		p.queue = append(p.queue, arrive)
		return
	}
	at := max(p.w.now+p.w.between(0, p.w.hurdle)+p.slow, p.last)
	p.last = at
	p.w.after(at-p.w.now, arrive)
}

func (p *path) block(d time.Duration, what string) {
	if p.blocked {
		return
	}
	p.w.note("%s blocked for %v", what, d)
	p.blocked = true
	p.w.after(d, func() {
		p.blocked = false
		queue := p.queue
		p.queue = nil
		for _, arrive := range queue {
			p.send(arrive)
		}
	})
}

// store is etcd: the keys that matter, with the revision of each.
type store struct {
	w           *world
	revision    int64
	member      int64 // CreateRevision of the member's key; 0 if it does not exist
	watchers    []int64
	accusations map[int]int64 // by watcher: CreateRevision
	history     []snapshot
}

// snapshot is the state at a revision, as a mirror shows it.
type snapshot struct {
	revision, member int64
	watchers         []int64
}

func (s *store) changed() {
	s.history = append(s.history, snapshot{s.revision, s.member, append([]int64(nil), s.watchers...)})
}

// link is the connection of a process to etcd.
type link struct {
	p       *proc
	blocked bool
	lossy   bool // requests or answers may be lost
	slow    time.Duration
}

// request sends a request to etcd. execute returns what its answer causes. The answer may be late or lost; then lost
// is called after the time-out. What was sent may be executed long after that. While there is no answer, a copy may be
// sent; the first answer counts.
func (l *link) request(timeout time.Duration, execute func() (answered func()), lost func()) {
	w := l.p.w
	over := false
	end := func(do func()) {
		if !over {
			over = true
			do()
		}
	}
	w.after(time.Duration(float64(timeout)/l.p.rate), func() { l.p.happen(func() { end(lost) }) })
	send := func() { l.deliver(func() func() { return later(end, execute()) }) }
	send()
	if w.oneIn(4) {
		w.after(w.between(0, timeout), func() {
			l.p.happen(func() {
				if !over {
					w.happens["requests sent twice"]++
					send()
				}
			})
		})
	}
}

// later returns a function that calls end with do.
func later(end func(do func()), do func()) func() { return func() { end(do) } }

// deliver delivers a request to etcd, and its answer.
func (l *link) deliver(execute func() (answered func())) {
	w := l.p.w
	there, back := w.between(0, w.hurdle)+l.slow, w.between(0, w.hurdle)+l.slow
	switch {
	case l.blocked && w.oneIn(2): // a relay has it, and delivers it later
		there += w.between(0, w.timeout)
	case l.blocked:
		return
	case l.lossy && w.oneIn(3):
		return
	}
	if w.oneIn(20) {
		there += w.between(0, 2*w.timeout)
		w.happens["requests executed late"]++
	}
	unanswered := l.blocked || l.lossy && w.oneIn(2)
	w.after(there, func() {
		answered := execute()
		if unanswered {
			w.happens["requests executed and unanswered"]++
			return
		}
		w.after(back, func() {
			if !l.blocked {
				l.p.happen(answered)
			}
		})
	})
}
