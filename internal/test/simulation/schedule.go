package simulation

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// newWorld draws a schedule: the hosts, the faults, and their times. It begins now.
func newWorld(seed uint64, log bool) *world {
	w := &world{seed: seed, began: time.Now(), keys: keys, rand: newRand(seed, 0x60765e), catalogue: everyFault(),
		wake: make(chan struct{}, 1), ended: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.w = w
	w.log = transcript{w: w, on: log}
	w.ttl = pick(w, []time.Duration{2 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second})
	w.shards, w.window = pick(w, []int{5, 7}), pick(w, []time.Duration{50 * time.Millisecond, time.Second})
	w.members = pick(w, []int{1, 1, 3})
	w.etcd = modeletcd.NewCluster(w.members, etcdDelays(seed))
	w.checks = newChecks(w)
	w.etcd.Changed = w.checks.changed
	w.detect = !w.chance(4)
	fallback, far := !w.chance(4), w.chance(3)
	for i := range 3 + w.rand.IntN(3) {
		h := newHost(w, fmt.Sprintf("%c:1", 'a'+i))
		h.roles = roles{observer: w.chance(10), fallback: fallback, drains: w.chance(10),
			shards: w.shards, excluded: w.chance(10), asked: w.chance(2), proxied: w.chance(4)}
		if w.chance(12) {
			h.roles.shards = 0
		}
		if h.member = w.rand.IntN(w.members); w.chance(3) {
			h.roams = true
		}
		if far {
			h.distance = w.drawDistance(h.roles.proxied)
		}
		w.hosts = append(w.hosts, h)
		begin := w.between(0, 50*time.Millisecond)
		if w.chance(5) {
			begin = w.between(0, 2*w.ttl)
		}
		w.after(begin, h.begin)
	}
	if fallback && w.chance(6) { // at first no node can be elected
		for _, h := range w.hosts {
			if !w.chance(5) {
				w.after(0, func() { w.denyFor(h, w.between(0, 2*w.ttl)) })
			}
		}
	}
	if w.chance(3) {
		w.writeElsewhere()
	}
	end := w.ttl + w.between(0, 2*w.ttl)
	for range 1 + w.rand.IntN(6) {
		w.plan(end)
	}
	w.after(end, w.heal)
	w.log.say("seed %d: %d hosts, %d members of etcd, TTL %v, crash detection %t, fallback %t; everything is healed at %v",
		seed, len(w.hosts), w.members, w.ttl, w.detect, fallback, end)
	return w
}

// etcdDelays returns a function that draws delays among the members of etcd.
func etcdDelays(seed uint64) func(least, most time.Duration) time.Duration {
	r := newRand(seed, streamOf("etcd"))
	return func(least, most time.Duration) time.Duration { return between(r, least, most) } // etcd holds its lock
}

// begin starts a process if none runs.
func (h *host) begin() {
	if h.process == nil {
		h.start()
	}
}

// drawDistance draws a host's distance from etcd, one way, such that renewal rounds can still succeed. A proxy
// adds a request to each round and takes up to a second off the lease.
func (w *world) drawDistance(proxied bool) time.Duration {
	d, ways, ttl := pick(w, []time.Duration{0, 0, 20 * time.Millisecond, 80 * time.Millisecond, 200 * time.Millisecond}),
		time.Duration(4), w.ttl
	if proxied {
		ways, ttl = 6, w.ttl-time.Second
	}
	if ways*d >= ttl/6 {
		return 0
	}
	return d
}

// keys are the keys of the cluster.
var keys = func() state.Keys {
	k, err := state.NewKeys("/g")
	if err != nil {
		panic(err) // the prefix is valid
	}
	return k
}()

// plan draws one fault and its start: at any instant, or at a moment of interest.
func (w *world) plan(end time.Duration) {
	n := w.drawFault()
	h := pick(w, w.hosts)
	toLeader := w.chance(2)
	begin := func() {
		if w.faults.ended() {
			return
		}
		target := h
		if l := w.leader(); toLeader && l != nil {
			target = l.host
		}
		w.checks.faultBegan(n)
		w.note(target, "%s", w.catalogue[n].name)
		w.catalogue[n].begin(w, target)
	}
	if w.chance(2) {
		w.after(w.between(0, end), begin)
		return
	}
	t := trigger{moment: w.drawMoment(), skip: w.rand.IntN(4), begin: begin}
	switch w.rand.IntN(4) {
	case 0:
		t.after = w.between(0, 3*time.Millisecond)
	case 1:
		t.after = w.between(0, 200*time.Millisecond)
	}
	if w.chance(2) {
		t.host = h
	}
	w.after(w.between(0, end), func() { w.faults.at(t) })
}

// drawMoment draws a moment, and prefers rare and important ones.
func (w *world) drawMoment() moment {
	if w.chance(4) {
		return termBegan + moment(w.rand.IntN(2))
	}
	k := pick(w, []kind{toRenew, toCheck, toCampaign, toCampaign, toLookAhead, toLeave, toLeave, toRegister, toRegister,
		toGrant, toRevoke, toRead, toChange, toChange, toRecord, toAccuse, toRemove, toRefute, toWrite, toAsk, toPlan,
		toPlan, toReport, toReport})
	return moment(w.rand.IntN(3))*moment(kinds) + moment(k)
}

// heal ends all faults, starts the missing processes, and waits for the cluster to recover.
func (w *world) heal() {
	w.log.say("everything is healed")
	w.faults.heal()
	for _, h := range w.hosts {
		if h.process == nil {
			w.after(w.between(0, w.ttl/4), h.begin)
		}
	}
	healed := w.now()
	w.after(w.ttl/4+time.Millisecond, func() { w.awaitEnd(healed) })
}

// writeElsewhere repeatedly writes a key outside the cluster's range.
func (w *world) writeElsewhere() {
	w.after(w.between(1, w.ttl/10), func() {
		w.out(nobody, put("/elsewhere", "", 0))
		w.writeElsewhere()
	})
}
