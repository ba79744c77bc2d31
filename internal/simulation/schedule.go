package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/internal/state"
)

// newWorld draws a schedule: who there is, what goes wrong, and when.
func newWorld(seed uint64, log bool) *world {
	w := &world{seed: seed, keys: keys, Rand: newRand(seed)}
	w.faults.w = w
	if log {
		w.log = &transcript{w: w}
	}
	w.ttl = pick(w, []time.Duration{2 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second})
	w.etcd = &etcd{w: w, revision: 1, term: 1}
	w.queue.heap = make([]event, 0, 128)

	// Drawn apart, so that other draws are what they would be without it.
	aside := rand.New(rand.NewPCG(seed, 0x960c))
	detect := !w.chance(4)
	fallback := !w.chance(4)
	w.shards, w.window = pick(w, []int{5, 7}), pick(w, []time.Duration{50 * time.Millisecond, time.Second})
	w.checks.owners = newOwners(w.shards)
	far := w.chance(3)
	for i := range 3 + w.IntN(3) {
		h := newHost(w, fmt.Sprintf("%c:1", 'a'+i))
		h.roles = roles{observer: w.chance(10), fallback: fallback, detect: detect, drains: w.chance(10),
			shards: w.shards, excluded: w.chance(10), asked: w.chance(2)}
		h.roles.proxied = aside.IntN(4) == 0
		if w.chance(12) {
			h.roles.shards = 0
		}
		if far {
			h.distance = w.drawDistance()
		}
		w.hosts = append(w.hosts, h)
		begin := w.between(0, 50*time.Millisecond)
		if w.chance(5) {
			begin = w.between(0, 2*w.ttl)
		}
		w.at(begin, func() {
			if h.process == nil {
				h.start()
			}
		})
	}
	if fallback && w.chance(6) { // nobody can be elected at first
		for _, h := range w.hosts {
			if !w.chance(5) {
				w.at(0, func() { w.denyFor(h, w.between(0, 2*w.ttl)) })
			}
		}
	}
	if aside.IntN(3) == 0 {
		w.writeElsewhere(aside)
	}
	end := w.ttl + w.between(0, 2*w.ttl)
	for range 1 + w.IntN(6) {
		w.plan(end)
	}
	w.at(end, w.heal)
	if w.log != nil {
		w.log.say("seed %d: %d hosts, TTL %v, crash detection %t, fallback %t; everything is healed at %v",
			seed, len(w.hosts), w.ttl, detect, fallback, end)
	}
	return w
}

// drawDistance draws how far a host is from etcd, one way: not so far that no renewal round
// could succeed.
func (w *world) drawDistance() time.Duration {
	d := pick(w, []time.Duration{0, 0, 20 * time.Millisecond, 80 * time.Millisecond, 200 * time.Millisecond})
	if 4*d >= w.ttl/6 {
		return 0
	}
	return d
}

// keys are the cluster's.
var keys = func() state.Keys {
	k, err := state.NewKeys("/g")
	if err != nil {
		panic(err) // it is a good prefix
	}
	return k
}()

// What is asked for after every event is not made anew each time.
var actingKey, queueStart, queueEnd = keys.Acting(), keys.Queue(), keys.QueueEnd()

// plan draws one fault and when it begins: at any instant, or at a moment that
// matters.
func (w *world) plan(end time.Duration) {
	f := w.drawFault()
	h := pick(w, w.hosts)
	toLeader := w.chance(2)
	begin := func() {
		if w.faults.over {
			return
		}
		target := h
		if l := w.leader(); toLeader && l != nil {
			target = l.host
		}
		w.checks.count(FaultBegan)
		w.note(target, "%s", f.name)
		f.begin(w, target)
	}
	if w.chance(2) {
		w.at(w.between(0, end), begin)
		return
	}
	t := trigger{moment: w.drawMoment(), skip: w.IntN(4), begin: begin}
	switch w.IntN(4) {
	case 0:
		t.after = w.between(0, 3*time.Millisecond)
	case 1:
		t.after = w.between(0, 200*time.Millisecond)
	}
	if w.chance(2) {
		t.host = h
	}
	w.at(w.between(0, end), func() { w.faults.waiting = append(w.faults.waiting, t) })
}

// drawMoment prefers what happens seldom and matters much.
func (w *world) drawMoment() moment {
	if w.chance(4) {
		return termBegan + moment(w.IntN(3))
	}
	k := pick(w, []kind{toRenew, toCheck, toCampaign, toCampaign, toLookAhead, toLeave, toLeave, toRegister, toRegister,
		toGrant, toRevoke, toRead, toChange, toChange, toRecord, toAccuse, toRemove, toRefute, toWrite, toAsk, toPlan,
		toPlan, toReport, toReport})
	return moment(w.IntN(3))*moment(kinds) + moment(k)
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

// host is the one at address.
func (w *world) host(address string) *host {
	for _, h := range w.hosts {
		if h.address == address {
			return h
		}
	}
	return nil
}

// heal ends all faults, starts what was not running, and waits for the cluster to be
// right again.
func (w *world) heal() {
	if w.log != nil {
		w.log.say("everything is healed")
	}
	w.faults.heal()
	for _, h := range w.hosts {
		if h.process == nil {
			w.after(w.between(0, w.ttl/4), func() {
				if h.process == nil {
					h.start()
				}
			})
		}
	}
	healed := w.now
	w.after(w.ttl/4+time.Millisecond, func() { w.awaitEnd(healed) })
}

// writeElsewhere has somebody write keys that are none of the cluster's, again and again.
func (w *world) writeElsewhere(aside *rand.Rand) {
	w.after(time.Duration(1+aside.Int64N(int64(w.ttl/10))), func() {
		w.etcd.revision++
		w.writeElsewhere(aside)
	})
}
