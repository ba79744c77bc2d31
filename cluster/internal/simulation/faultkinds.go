package simulation

import (
	"time"

	"github.com/goverse/goverse/cluster/internal/change"
	"github.com/goverse/goverse/cluster/internal/suspicion"
	"github.com/goverse/goverse/cluster/state"
)

// fault is one way for something to go wrong, or for somebody to want something.
type fault struct {
	weight int
	name   string
	begin  func(w *world, h *host)
}

// drawFault draws one by its weight.
func (w *world) drawFault() fault {
	n := w.IntN(totalWeight)
	for _, f := range allFaults {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("simulation: the weights do not add up")
}

var allFaults = []fault{
	{8, "one request is lost, is not answered, or comes late", doomed},
	{4, "the same for two requests in a row", func(w *world, h *host) { doomed(w, h); doomed(w, h) }},
	{6, "cut off from etcd", cutOff},
	{3, "slow way to etcd", slowLink},
	{5, "frozen watch", freezeWatch},
	{4, "dead watch", deadWatch},
	{3, "broken watch", func(w *world, h *host) {
		if h.process != nil {
			w.etcd.breakOff(h.process, errBroke)
		}
	}},
	{2, "compaction", func(w *world, _ *host) { w.etcd.compact(w.etcd.revision - w.Int64N(3)) }},
	{3, "compaction behind a frozen watch", func(w *world, h *host) {
		d := w.duration(h)
		w.freezeFor(h, d)
		w.after(d*9/10, func() { w.etcd.compact(w.etcd.revision) })
	}},
	{6, "paused process", pauseProcess},
	{2, "paused in a renewal", pauseInRenewal},
	{2, "suspended machine", suspendMachine},
	{2, "stepped wall clock", stepWall},
	{2, "busy machine", busyMachine},
	{6, "crash", crash},
	{2, "lost host", loseHost},
	{4, "stop", stopAndStart},
	{5, "resignation", func(_ *world, h *host) {
		if h.process != nil {
			h.process.election.resignNow()
		}
	}},
	{3, "resignation that comes late", func(w *world, h *host) {
		w.doomNext(h, leaving_, late)
		w.doomNext(h, changing, late)
		if h.process != nil {
			h.process.election.resignNow()
		}
	}},
	{5, "wish", wish},
	{3, "wish, and those who give way are late", func(w *world, h *host) {
		for range 1 + w.IntN(2) {
			w.doomNext(nil, leaving_, late)
		}
		wish(w, h)
		if l := w.leader(); l != nil && w.chance(2) { // the wish is void then
			w.after(w.between(0, 20*time.Millisecond), func() { crash(w, l.host) })
		}
	}},
	{3, "etcd elects another leader", electEtcd},
	{3, "etcd is away", etcdAway},
	{5, "hand", handFrom},
	{4, "hand, and the watch frozen", func(w *world, h *host) {
		w.freezeFor(h, w.between(0, w.ttl))
		handFrom(w, h)
	}},
	{6, "denied candidacy", deny},
	{3, "outside candidate", outsider},
	{2, "outside candidate, and the watch frozen", func(w *world, h *host) {
		w.freezeFor(h, w.between(0, w.ttl))
		outsider(w, h)
	}},
	{4, "refusing address", refuse},
	{3, "broken streams", breakStreams},
	{2, "silent address", silence},
	{3, "slow, then cut off", slowThenCut},
	{3, "refusing and cut off", func(w *world, h *host) {
		d := w.duration(h)
		w.refuseFor(h, d)
		w.cutFor(h, d, true, true)
	}},
	{2, "refusing, and the others' watches frozen", func(w *world, h *host) {
		d := w.duration(h)
		w.refuseFor(h, d)
		for _, x := range w.hosts {
			if x != h {
				w.freezeFor(x, min(d, w.between(0, w.ttl/3)))
			}
		}
	}},
	{2, "refusing, and cut off in a renewal", func(w *world, h *host) {
		w.faults.waiting = append(w.faults.waiting, trigger{moment: carriedOut + moment(checking), host: h, begin: func() {
			w.refuseFor(h, w.ttl)
			w.cutFor(h, w.duration(h), true, false)
		}})
	}},
	{2, "refusing and paused", func(w *world, h *host) {
		d := w.duration(h)
		w.refuseFor(h, d)
		w.pauseFor(h, d)
	}},
}

var totalWeight = func() (sum int) {
	for _, f := range allFaults {
		sum += f.weight
	}
	return sum
}()

// duration draws how long something lasts: a moment, long, or until just around an
// instant that matters to the host.
func (w *world) duration(h *host) time.Duration {
	switch w.IntN(6) {
	case 0:
		return w.between(0, 50*time.Millisecond)
	case 1, 2:
		return w.between(0, w.ttl/2)
	case 3:
		return w.between(w.ttl/2, 2*w.ttl)
	}
	if h.process == nil || h.process.keeper.session == nil {
		return w.between(0, w.ttl)
	}
	s := h.process.keeper.session
	around := h.clock().Until(s.claim.Until()) // its deadline
	if l := w.etcd.lease(s.lease); l != nil && w.chance(2) {
		around = l.ends - w.now // the end of its lease
	}
	return max(around+w.between(-20*time.Millisecond, 20*time.Millisecond), 0)
}

func (w *world) note(h *host, format string, args ...any) {
	if w.log == nil {
		return
	}
	if h != nil && h.process != nil {
		w.log.of(h.process, "FAULT "+format, args...)
		return
	}
	who := ""
	if h != nil {
		who = h.address + " "
	}
	w.log.say("FAULT "+who+format, args...)
}

func doomed(w *world, h *host) {
	d := doom{kind: pick(w, []kind{reading, granting, renewing, checking, revoking, registering, registering, recording,
		campaigning, campaigning, campaigning, lookingAhead, leaving_, leaving_, leaving_, changing, changing, writing, writing,
		accusing, removing, refuting, asking}), skip: w.IntN(3)}
	if !w.chance(3) {
		d.host, d.skip = h, w.IntN(2)
	}
	d.fate = pick(w, []fate{neverSent, unanswered, unanswered, late, late})
	d.after = w.between(0, w.ttl)
	if w.chance(3) {
		d.after = w.between(0, 2*w.ttl)
	}
	who := "anybody's"
	if d.host != nil {
		who = "its"
	}
	w.note(h, "%s next %s (after %d others) %s", who, d.kind, d.skip,
		[...]string{"", "is lost", "will not be answered", "comes late"}[d.fate])
	w.faults.fates = append(w.faults.fates, d)
}

// doomNext settles what becomes of the next request of that kind.
func (w *world) doomNext(h *host, k kind, f fate) {
	w.faults.fates = append(w.faults.fates, doom{kind: k, host: h, fate: f, after: w.between(0, w.ttl)})
	w.note(h, "the next %s comes late", k)
}

func cutOff(w *world, h *host) {
	how := w.IntN(4)
	w.cutFor(h, w.duration(h), how != 1, how != 2)
}

// cutFor loses requests, or answers, or both.
func (w *world) cutFor(h *host, d time.Duration, requests, answers bool) {
	w.note(h, "is cut off from etcd for %v (requests %t, answers %t)", d, requests, answers)
	h.link.noRequests, h.link.noAnswers = requests, answers
	if h.process != nil && w.chance(3) { // the client's keepalive notices
		p := h.process
		p.after(w.between(0, d), func() {
			if p.mirror.watch != nil {
				p.mirror.lost(errBroke)
			}
		})
	}
	w.faults.last(d, func() {
		h.link.noRequests, h.link.noAnswers = false, false
		w.mended(h)
	})
}

// mended: what is wrong with the way to etcd is over.
func (w *world) mended(h *host) {
	h.hinder()
	w.note(h, "is over")
	w.etcd.free()
}

func slowLink(w *world, h *host) {
	d, slow := w.duration(h), pick(w, []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, w.ttl / 5})
	w.note(h, "its way to etcd takes up to %v longer for %v", slow, d)
	h.link.slow = slow
	w.faults.last(d, func() { w.fastAgain(h) })
}

// fastAgain: what is on its way still takes its time.
func (w *world) fastAgain(h *host) {
	h.lagged = max(h.lagged, w.now+2*h.link.slow)
	h.link.slow = 0
	w.mended(h)
}

// slowThenCut: etcd's answers to a renewal take their time, and are the last for long.
func slowThenCut(w *world, h *host) {
	slow := w.between(0, w.ttl/5)
	w.note(h, "its way to etcd takes up to %v longer, and is cut at its next renewal", slow)
	h.link.slow = slow
	w.faults.last(w.ttl, func() { w.fastAgain(h) })
	w.faults.waiting = append(w.faults.waiting, trigger{moment: gotAnswer + moment(checking), host: h,
		begin: func() { w.cutFor(h, w.ttl+w.between(0, w.ttl), true, true) }})
}

func freezeWatch(w *world, h *host) { w.freezeFor(h, w.duration(h)) }

func (w *world) freezeFor(h *host, d time.Duration) {
	w.note(h, "its watch delivers nothing for %v", d)
	h.link.frozen = true
	w.faults.last(d, func() { h.link.frozen = false; w.mended(h) })
}

func pauseProcess(w *world, h *host) { w.pauseFor(h, w.duration(h)) }

// deadWatch: nothing comes through a watch any more, and nobody says so; or through the
// next one, once it was opened.
func deadWatch(w *world, h *host) {
	p := h.process
	switch {
	case p == nil:
	case p.mirror.watch == nil || w.chance(2):
		w.note(h, "its next watch will be dead")
		h.link.stillborn = true
		w.etcd.breakOff(p, errBroke)
		w.faults.last(w.ttl, func() { h.link.stillborn = false })
	default:
		w.note(h, "its watch is dead")
		p.mirror.watch.dead = true
	}
}

// pauseInRenewal stops the process while a renewal's answer is on its way, until about
// its deadline.
func pauseInRenewal(w *world, h *host) {
	w.faults.waiting = append(w.faults.waiting, trigger{moment: carriedOut + moment(pick(w, []kind{renewing, checking})), host: h,
		begin: func() {
			if p := h.process; p != nil && p.keeper.session != nil {
				left := h.clock().Until(p.keeper.session.claim.Until())
				w.pauseFor(h, max(0, left+w.between(-time.Millisecond, 20*time.Millisecond)))
			}
		}})
}

// pauseFor is SIGSTOP and SIGCONT.
func (w *world) pauseFor(h *host, d time.Duration) {
	p := h.process
	if p == nil || p.paused {
		return
	}
	w.note(h, "is paused for %v", d)
	p.paused = true
	w.faults.last(d, func() {
		p.paused = false
		if !p.dead {
			w.note(h, "goes on")
			p.goOn()
		}
	})
}

func suspendMachine(w *world, h *host) {
	if h.suspended >= 0 || h.setBack {
		return
	}
	d := w.duration(h)
	w.note(h, "its machine is suspended for %v", d)
	h.suspend()
	w.faults.last(d, func() {
		h.hinder()
		h.resume()
		w.note(h, "its machine goes on")
		if p := h.process; p != nil && p.keeper.session != nil {
			p.keeper.session.wallStepped()
		}
	})
}

func stepWall(w *world, h *host) {
	by := w.between(-2*w.ttl, 2*w.ttl)
	if h.stood > 0 || h.suspended >= 0 {
		by = by.Abs() // set back around a suspension, neither clock shows the time that passed
	}
	h.setBack = h.setBack || by < 0
	w.note(h, "its wall clock is stepped by %v", by)
	h.wallAhead += by
	h.stepped = true
	if p := h.process; p != nil && p.keeper.session != nil {
		p.keeper.session.wallStepped()
	}
}

func busyMachine(w *world, h *host) {
	d, slow := w.duration(h), pick(w, []time.Duration{5 * time.Millisecond, 100 * time.Millisecond, time.Second})
	w.note(h, "is so busy that goroutines wait for up to %v, for %v", slow, d)
	h.slow = slow
	w.faults.last(d, func() {
		h.lagged = max(h.lagged, w.now+h.slow) // who waits goes on waiting
		h.slow = 0
	})
}

func crash(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.note(h, "crashes")
	h.process.die(false)
	w.startAgain(h)
}

// loseHost: nobody hears of the end of its processes, nor is anybody refused.
func loseHost(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.note(h, "its host is lost")
	h.process.die(true)
	h.silent = true
	w.faults.last(w.duration(h), func() { h.silent = false })
	w.startAgain(h)
}

func (w *world) startAgain(h *host) {
	if w.chance(2) {
		return // when everything is healed
	}
	d := w.duration(h)
	if w.chance(3) {
		d = w.between(0, 50*time.Millisecond)
	}
	w.after(d, func() {
		if h.process == nil && !h.silent {
			h.start()
		}
	})
}

func stopAndStart(w *world, h *host) {
	if h.process == nil {
		return
	}
	w.note(h, "is told to stop")
	h.process.stop()
	w.startAgain(h)
}

func wish(w *world, h *host) {
	p := h.process
	if p == nil {
		return
	}
	if w.chance(2) {
		p.ask(state.RequestResign, "")
		return
	}
	p.ask(state.RequestTransfer, pick(w, w.hosts).address)
}

func electEtcd(w *world, _ *host) {
	w.note(nil, "etcd elects another leader: every lease gets another TTL")
	w.etcd.elect()
	for _, h := range w.hosts {
		if h.process != nil && w.chance(2) {
			w.etcd.breakOff(h.process, errBroke)
		}
	}
	w.away(w.between(0, time.Second))
}

func etcdAway(w *world, h *host) { w.away(w.duration(h)) }

// away: etcd answers nobody; no lease runs out meanwhile, and each has a new TTL after.
func (w *world) away(d time.Duration) {
	if w.etcd.away {
		return
	}
	w.note(nil, "etcd is away for %v", d)
	w.etcd.away = true
	w.faults.last(d, func() {
		w.note(nil, "etcd is back")
		w.etcd.away = false
		w.etcd.elect()
		for _, h := range w.hosts {
			h.hinder()
		}
		w.etcd.free()
	})
}

// handFrom is somebody who writes to etcd past everybody.
func handFrom(w *world, h *host) {
	p, e := h.process, w.etcd
	if p == nil || p.keeper.session == nil || e.away {
		return
	}
	lease := p.keeper.session.lease
	e.author = cause{by: hand}
	key := pick(w, []string{w.keys.Candidate(lease), w.keys.Candidate(lease), w.keys.Node(h.address), w.keys.Acting()})
	switch w.IntN(4) {
	case 0:
		w.note(h, "somebody revokes its lease %x", lease)
		if _, err := e.revoke(nil, lease); err == nil {
			w.checks.taken = append(w.checks.taken, taken{lease: lease, at: w.now, by: hand})
		}
	case 1:
		kv := e.get(key)
		if kv == nil || key == w.keys.Acting() {
			return
		}
		w.note(h, "somebody alters %s", key)
		onto := int64(0)
		if w.chance(2) {
			onto = kv.Lease
		}
		_, _ = e.execute(nil, change.Change{Then: []change.Op{{Kind: change.Put, Key: key, Value: "somebody", Lease: onto}}})
	default:
		w.note(h, "somebody deletes %s", key)
		_, _ = e.execute(nil, change.Change{Then: []change.Op{{Kind: change.Delete, Key: key}}})
	}
}

// deny has etcd refuse the candidates' keys of one host, of some or of all.
func deny(w *world, h *host) {
	d := w.duration(h)
	others := w.IntN(3)
	for _, x := range w.hosts {
		if x == h || others == 1 && w.chance(2) || others == 2 {
			w.denyFor(x, max(d+w.between(-50*time.Millisecond, 50*time.Millisecond), 0))
		}
	}
}

func (w *world) denyFor(h *host, d time.Duration) {
	w.note(h, "etcd denies its candidacy for %v", d)
	h.denied = true
	w.faults.last(d, func() {
		w.note(h, "etcd allows its candidacy")
		h.denied = false
	})
}

func refuse(w *world, h *host) { w.refuseFor(h, w.duration(h)) }

// refuseFor closes the host's port to others.
func (w *world) refuseFor(h *host, d time.Duration) {
	w.note(h, "refuses connections for %v", d)
	h.refuses = true
	breakStreams(w, h)
	w.faults.last(d, func() { h.refuses = false })
}

// breakStreams resets the connections between this host and others.
func breakStreams(w *world, h *host) {
	if p := h.process; p != nil {
		w.note(h, "the connections of its watchers break")
		for _, s := range append([]*stream(nil), p.detector.watchers...) {
			s.end(suspicion.Broke, false, w.chance(4))
		}
	}
}

func silence(w *world, h *host) {
	d := w.duration(h)
	w.note(h, "nobody reaches its address for %v", d)
	h.silent = true
	breakStreams(w, h)
	w.faults.last(d, func() { h.silent = false })
}
