package silence

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

var (
	firstSeed = flag.Uint64("silence.seed", 1, "the first seed")
	schedules = flag.Int("silence.schedules", 20_000, "how many schedules to run, each with the next seed")
)

// play runs the schedule of a seed.
func play(seed uint64, log *strings.Builder, happens map[string]int) (failure string) {
	r := rand.New(rand.NewPCG(seed, 33))
	w := &world{rand: r, log: log, happens: happens}
	w.timeout = []time.Duration{2 * time.Second, 3500 * time.Millisecond, 5 * time.Second}[r.IntN(3)]
	w.hurdle = []time.Duration{time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond}[r.IntN(3)]
	w.etcd = &store{w: w, revision: 1, accusations: map[int]int64{}}
	m := &member{proc: newProc(w, "member")}
	m.link, m.lag = link{p: &m.proc}, 0
	w.member = m
	w.etcd.member = 1
	for i := range 1 + r.IntN(3) {
		x := &watcher{proc: newProc(w, fmt.Sprintf("watcher %d", i)), index: i}
		x.link = link{p: &x.proc}
		w.etcd.revision++
		x.incarnation = w.etcd.revision
		w.etcd.watchers = append(w.etcd.watchers, x.incarnation)
		w.watch = append(w.watch, x)
	}
	w.etcd.changed()
	m.join()
	for _, x := range w.watch {
		w.after(w.between(0, w.timeout/4), func() { x.happen(x.open) })
		x.every(100*time.Millisecond, x.checkClock)
	}
	end := 3*w.timeout + w.between(0, 4*w.timeout)
	for range 1 + r.IntN(7) {
		w.planFault(end)
	}
	w.run(end + 2*w.timeout)
	return w.failure
}

// long draws the length of a fault: a moment, a long time, or one that ends near an instant that matters.
func (w *world) long() time.Duration {
	t := deadline.ProofTimesOf(w.timeout)
	a, b := t.Acknowledged, t.Read
	switch w.rand.IntN(4) {
	case 0:
		return w.between(0, w.timeout/4)
	case 1:
		return w.between(0, 2*w.timeout)
	}
	around := []time.Duration{a, b, a * 7 / 16, a + b, drift(a), a*7/16 + drift(b), a + a/8}[w.rand.IntN(7)]
	return max(0, around+w.between(-60*time.Millisecond, 60*time.Millisecond))
}

// planFault draws a fault and when it begins.
func (w *world) planFault(end time.Duration) {
	x := w.watch[w.rand.IntN(len(w.watch))]
	m := w.member
	faults := []struct {
		name  string
		begin func()
	}{
		{"the member stands still", func() { m.pause(w.long()) }},
		{"the member stands still", func() { m.pause(w.long()) }},
		{"a watcher stands still", func() { x.pause(w.long()) }},
		{"all watchers stand still", func() {
			for _, x := range w.watch {
				x.pause(w.long())
			}
		}},
		{"a watcher dies", func() { x.dead = true }},
		{"a watcher registers anew", func() { x.registerAnew(w.long()) }},
		{"heartbeats do not arrive", func() { x.down(func(p *path) { p.block(w.long(), "heartbeats to "+x.name) }) }},
		{"acknowledgements do not arrive", func() {
			x.up(func(p *path) { p.block(w.long(), "acknowledgements of "+x.name) })
		}},
		{"no message between two arrives", func() {
			d := w.long()
			x.up(func(p *path) { p.block(d, "acknowledgements of "+x.name) })
			x.down(func(p *path) { p.block(d, "heartbeats to "+x.name) })
		}},
		{"messages are slow", func() {
			d := w.long()
			x.up(func(p *path) { p.slow = w.long() })
			x.down(func(p *path) { p.slow = w.long() })
			w.after(d, func() {
				x.up(func(p *path) { p.slow = 0 })
				x.down(func(p *path) { p.slow = 0 })
			})
		}},
		{"the stream breaks", func() {
			if x.stream != nil && !x.leaves {
				x.stream.broken = true
				w.after(w.between(0, w.timeout/2), func() { x.happen(x.open) })
			}
		}},
		{"a watcher leaves and comes again", func() { x.leaves = x.stream != nil && !x.stream.broken }},
		{"a member is cut off from etcd", func() { w.cut(&m.link) }},
		{"a watcher is cut off from etcd", func() { w.cut(&x.link) }},
		{"messages of the member to etcd are lost", func() { w.lose(&m.link) }},
		{"messages of a watcher to etcd are lost", func() { w.lose(&x.link) }},
		{"etcd is slow for the member", func() { w.slow(&m.link) }},
		{"etcd is slow for a watcher", func() { w.slow(&x.link) }},
		{"the host is cut off from everything", w.cutMember},
		{"acknowledgements are late, then the host is cut off", func() {
			for _, x := range w.watch {
				x.up(func(p *path) { p.slow = w.between(0, w.timeout) })
			}
			w.after(w.long(), w.cutMember)
		}},
		{"heartbeats do not arrive until the removal, and etcd is away from then on", func() {
			until := drift(deadline.ProofTimesOf(w.timeout).Acknowledged) + w.between(-w.timeout/20, w.timeout/20)
			w.block(&m.link, 3*w.timeout)
			for _, x := range w.watch {
				x.down(func(p *path) { p.block(until+w.between(0, w.timeout/5), "heartbeats to "+x.name) })
				w.after(until, func() { w.block(&x.link, w.timeout) })
			}
		}},
		{"streams break, and are opened anew when the host is cut off", func() {
			for _, x := range w.watch {
				if x.stream != nil {
					x.stream.broken = true
				}
			}
			w.after(w.between(0, w.timeout), func() {
				w.cutMember()
				for _, x := range w.watch {
					x.happen(x.open)
					x.down(func(p *path) { p.block(w.long(), "heartbeats to "+x.name) })
				}
			})
		}},
		{"the member's mirror is late", func() { m.lag = w.now + w.long() }},
	}
	f := faults[w.rand.IntN(len(faults))]
	w.happens[f.name]++
	w.after(w.between(0, end), f.begin)
}

// cutMember cuts the member off from everything.
func (w *world) cutMember() {
	d := w.long()
	w.note("the member is cut off from everything for %v", d)
	w.member.link.blocked = true
	w.after(d, func() { w.member.link.blocked = false })
	for _, x := range w.watch {
		x.up(func(p *path) { p.block(d, "acknowledgements of "+x.name) })
		x.down(func(p *path) { p.block(d, "heartbeats to "+x.name) })
	}
}

func (x *watcher) up(change func(*path)) {
	if x.stream != nil {
		change(&x.stream.up)
	}
}

func (x *watcher) down(change func(*path)) {
	if x.stream != nil {
		change(&x.stream.down)
	}
}

func (w *world) cut(l *link) { w.block(l, w.long()) }

func (w *world) block(l *link, d time.Duration) {
	w.note("%s is cut off from etcd for %v", l.p.name, d)
	l.blocked = true
	w.after(d, func() { l.blocked = false })
}

func (w *world) lose(l *link) {
	d := w.long()
	w.note("%s loses requests and answers for %v", l.p.name, d)
	l.lossy = true
	w.after(d, func() { l.lossy = false })
}

func (w *world) slow(l *link) {
	l.slow = w.long() / 2
	w.note("etcd is slow for %s by %v", l.p.name, l.slow)
	w.after(w.long(), func() { l.slow = 0 })
}

// Whatever happens, a member that was removed for its silence does not claim.
func TestSchedules(t *testing.T) {
	happens := map[string]int{}
	began, broken, number := time.Now(), 0, *schedules
	if testing.Short() {
		number /= 10
	}
	for n := range number {
		seed := *firstSeed + uint64(n)
		failure := play(seed, nil, happens)
		if failure == "" {
			continue
		}
		if broken++; broken == 1 {
			var log strings.Builder
			play(seed, &log, map[string]int{})
			t.Errorf("seed %d: %s\n%s", seed, failure, log.String())
		} else if broken < 20 {
			t.Errorf("seed %d: %s", seed, failure)
		}
	}
	var names []string
	for name, n := range happens {
		names = append(names, fmt.Sprintf("%8d %s", n, name))
	}
	slices.Sort(names)
	t.Logf("%d schedules, %d broken, in %v\n%s", number, broken, time.Since(began).Round(time.Millisecond),
		strings.Join(names, "\n"))
	if number >= 5000 && broken == 0 {
		for _, what := range []string{"lapses", "refutations", "accusations", "withdrawals", "removals", "goodbyes",
			"removals of a member that runs", "watchers removed", "requests executed late",
			"requests executed and unanswered", "requests sent twice"} {
			require.NotZero(t, happens[what], what)
		}
	}
}
