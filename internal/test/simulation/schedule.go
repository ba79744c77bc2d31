package simulation

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/wait"
)

// newWorld draws a schedule: the hosts, the faults, and their times. It begins now.
func newWorld(seed uint64, log bool) *world {
	w := &world{seed: seed, began: time.Now(), keys: clusterKeys, rand: newRand(seed, 0x60765e), catalogue: allFaults(),
		wake: wait.NewSignal(), ended: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.w = w
	w.log = transcript{w: w, on: log}
	w.ttl = pickOne(w, []time.Duration{2 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second})
	w.shards, w.window = pickOne(w, []int{5, 7}), pickOne(w, []time.Duration{50 * time.Millisecond, time.Second})
	w.members = pickOne(w, []int{1, 1, 3})
	w.etcd = modeletcd.NewCluster(w.members, etcdDelays(seed))
	w.checks = newChecks(w)
	w.etcd.Changed = w.checks.handleChange
	w.crashDetection = !w.drawChance(4)
	fallback, far := !w.drawChance(4), w.drawChance(3)
	for i := range 3 + w.rand.IntN(3) {
		h := newHost(w, fmt.Sprintf("%c:1", 'a'+i))
		h.roles = roles{observer: w.drawChance(10), fallback: fallback, drains: w.drawChance(10),
			shards: w.shards, excluded: w.drawChance(10), asked: w.drawChance(2), proxied: w.drawChance(4)}
		if w.drawChance(12) {
			h.roles.shards = 0
		}
		if h.member = w.rand.IntN(w.members); w.drawChance(3) {
			h.roams = true
		}
		if far {
			h.distance = w.drawDistance(h.roles.proxied)
		}
		w.hosts = append(w.hosts, h)
		begin := w.drawBetween(0, 50*time.Millisecond)
		if w.drawChance(5) {
			begin = w.drawBetween(0, 2*w.ttl)
		}
		w.after(begin, h.ensureStarted)
	}
	if fallback && w.drawChance(6) { // at first no node can be elected
		for _, h := range w.hosts {
			if !w.drawChance(5) {
				w.after(0, func() { w.denyCandidatesFor(h, w.drawBetween(0, 2*w.ttl)) })
			}
		}
	}
	if w.drawChance(3) {
		w.writeElsewhere()
	}
	end := w.ttl + w.drawBetween(0, 2*w.ttl)
	for range 1 + w.rand.IntN(6) {
		w.planFault(end)
	}
	w.after(end, w.healAndRecover)
	w.log.addLine("seed %d: %d hosts, %d members of etcd, TTL %v, crash detection %t, fallback %t; "+
		"everything is healed at %v", seed, len(w.hosts), w.members, w.ttl, w.crashDetection, fallback, end)
	return w
}

// etcdDelays returns a function that draws delays among the members of etcd.
func etcdDelays(seed uint64) func(least, most time.Duration) time.Duration {
	r := newRand(seed, streamOf("etcd"))
	return func(least, most time.Duration) time.Duration { return drawBetween(r, least, most) } // etcd holds its lock
}

// ensureStarted starts a process if none runs.
func (h *host) ensureStarted() {
	if h.process == nil {
		h.startProcess()
	}
}

// drawDistance draws a host's distance from etcd, one way, such that renewal rounds can still succeed. A proxy
// adds a request to each round and takes up to a second off the lease.
func (w *world) drawDistance(proxied bool) time.Duration {
	d, ways, ttl := pickOne(w, []time.Duration{0, 0, 20 * time.Millisecond, 80 * time.Millisecond,
		200 * time.Millisecond}),
		time.Duration(4), w.ttl
	if proxied {
		ways, ttl = 6, w.ttl-time.Second
	}
	if ways*d >= ttl/6 {
		return 0
	}
	return d
}

// clusterKeys are the keys of the cluster.
var clusterKeys = func() state.Keys {
	k, err := state.NewKeys("/g")
	if err != nil {
		panic(err) // the prefix is valid
	}
	return k
}()

// planFault draws one fault and its start: at any instant, or at a moment of interest.
func (w *world) planFault(end time.Duration) {
	n := w.drawFault()
	h := pickOne(w, w.hosts)
	toLeader := w.drawChance(2)
	begin := func() {
		if w.faults.isHealed() {
			return
		}
		target := h
		if l := w.leadingProcess(); toLeader && l != nil {
			target = l.host
		}
		w.checks.countFault(n)
		w.noteFault(target, "%s", w.catalogue[n].name)
		w.catalogue[n].begin(w, target)
	}
	if w.drawChance(2) {
		w.after(w.drawBetween(0, end), begin)
		return
	}
	t := faultTrigger{moment: w.drawMoment(), skip: w.rand.IntN(4), begin: begin}
	switch w.rand.IntN(4) {
	case 0:
		t.after = w.drawBetween(0, 3*time.Millisecond)
	case 1:
		t.after = w.drawBetween(0, 200*time.Millisecond)
	}
	if w.drawChance(2) {
		t.host = h
	}
	w.after(w.drawBetween(0, end), func() { w.faults.addTrigger(t) })
}

// drawMoment draws a moment, and prefers rare and important ones.
func (w *world) drawMoment() faultMoment {
	if w.drawChance(4) {
		return momentTermBegan + faultMoment(w.rand.IntN(2))
	}
	k := pickOne(w, []requestKind{requestRenew, requestRoundRead, requestCampaign, requestCampaign, requestQueueRead,
		requestLeaveQueue, requestLeaveQueue, requestRegister, requestRegister,
		requestGrant, requestRevoke, requestRead, requestElectionChange, requestElectionChange, requestRecord,
		requestAccuse, requestRemove, requestRefute, requestGuardedWrite, requestResign, requestPlan,
		requestPlan, requestReport, requestReport})
	return faultMoment(w.rand.IntN(3))*faultMoment(requestKinds) + faultMoment(k)
}

// healAndRecover ends all faults, starts the missing processes, and waits for the cluster to recover.
func (w *world) healAndRecover() {
	w.log.addLine("everything is healed")
	w.faults.healAll()
	for _, h := range w.hosts {
		if h.process == nil {
			w.after(w.drawBetween(0, w.ttl/4), h.ensureStarted)
		}
	}
	healed := w.now()
	w.after(w.ttl/4+time.Millisecond, func() { w.awaitRecovery(healed) })
}

// writeElsewhere repeatedly writes a key outside the cluster's range.
func (w *world) writeElsewhere() {
	w.after(w.drawBetween(1, w.ttl/10), func() {
		w.changeOutOfBand(byNobody, putOp("/elsewhere", "", 0))
		w.writeElsewhere()
	})
}
