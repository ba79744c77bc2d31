package simulation

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// play draws a schedule and runs it.
func play(base *schedule.World) {
	w := &world{World: base, keys: clusterKeys, wake: wait.NewSignal(), ended: make(chan struct{})}
	w.Happened, w.Hindered, w.RequestTimeout = w.wakeChecks, w.markHindered, requestTimeout
	w.drawSchedule()
	w.runSchedule()
}

// drawSchedule draws the hosts, the faults, and their times.
func (w *world) drawSchedule() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.faults.w = w
	w.ttl = schedule.Pick(w.Rand, 2*time.Second, 2*time.Second, 5*time.Second, 10*time.Second)
	w.crashDetection = !w.OneIn(4)
	w.drawSilence()
	w.shards, w.window = schedule.Pick(w.Rand, 5, 7), schedule.Pick(w.Rand, 50*time.Millisecond, time.Second)
	w.StartEtcd(schedule.Pick(w.Rand, 1, 1, 3))
	w.checks = newChecks(w)
	w.Etcd.Changed = w.checks.handleChange
	fallback, far := !w.OneIn(4), w.OneIn(3)
	count, soleCandidates := 3+w.Rand.IntN(3), schedule.Pick(schedule.NewRand(w.Seed, "election only"), 0, 0, 0, 0, 1, 2)
	for i := range count {
		h := newHost(w, fmt.Sprintf("%c:1", 'a'+i))
		h.roles = roles{observer: w.OneIn(10), fallback: fallback, drains: w.OneIn(10),
			shards: w.shards, excluded: w.OneIn(10), asked: w.OneIn(2), proxied: w.OneIn(4)}
		if w.OneIn(12) {
			h.roles.shards = 0
		}
		if i >= count-soleCandidates {
			h.roles = roles{electionOnly: true, observer: h.roles.observer, proxied: h.roles.proxied}
		}
		h.link.Member, h.link.Roams = w.Rand.IntN(w.Members), w.OneIn(3)
		if far {
			h.link.Distance = w.drawDistance(h.roles.proxied)
		}
		h.roles.old = w.silence > 0 && w.OneIn(6)
		w.hosts = append(w.hosts, h)
		begin := w.Between(0, 50*time.Millisecond)
		if w.OneIn(5) {
			begin = w.Between(0, 2*w.ttl)
		}
		w.After(begin, h.ensureStarted)
	}
	if fallback && w.OneIn(6) { // at first no node can be elected
		for _, h := range w.hosts {
			if !w.OneIn(5) {
				w.After(0, func() { h.denyCandidacy(w.Between(0, 2*w.ttl)) })
			}
		}
	}
	if w.OneIn(3) {
		w.writeElsewhere()
	}
	end := w.ttl + w.Between(0, 2*w.ttl)
	for range 1 + w.Rand.IntN(6) {
		w.planFault(end)
	}
	w.After(end, w.healAndRecover)
	w.Log.Addf("", "seed %d: %d hosts, the last %d for the election only, %d members of etcd, TTL %v, "+
		"crash detection %t, silence %v, fallback %t; all faults end at %v", w.Seed, len(w.hosts), soleCandidates, w.Members,
		w.ttl, w.crashDetection, w.silence, fallback, end)
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
	d, ways, ttl := schedule.Pick(w.Rand, 0, 0, 20*time.Millisecond, 80*time.Millisecond,
		200*time.Millisecond),
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
	fault := schedule.Draw(w.Rand, w.faultKinds())
	h := schedule.Pick(w.Rand, w.hosts...)
	toLeader := w.OneIn(2)
	begin := func() {
		if w.IsHealed() {
			return
		}
		target := h
		if l := w.leadingProcess(); toLeader && l != nil {
			target = l.host
		}
		w.Counts.Count(fault.Event())
		w.noteFault(target, "%s", fault.Name)
		fault.Begin(w, target)
	}
	if w.OneIn(2) {
		w.After(w.Between(0, end), begin)
		return
	}
	t := faultTrigger{moment: w.drawMoment(), skip: w.Rand.IntN(4), begin: begin}
	switch w.Rand.IntN(4) {
	case 0:
		t.after = w.Between(0, 3*time.Millisecond)
	case 1:
		t.after = w.Between(0, 200*time.Millisecond)
	}
	if w.OneIn(2) {
		t.host = h
	}
	w.After(w.Between(0, end), func() { w.faults.addTrigger(t) })
}

// drawMoment draws a moment, and prefers rare and important ones.
func (w *world) drawMoment() faultMoment {
	if w.OneIn(4) {
		return momentTermBegan + faultMoment(w.Rand.IntN(2))
	}
	if w.silence > 0 && w.OneIn(2) {
		return faultMoment(w.Rand.IntN(3))*faultMoment(requestKinds) + faultMoment(w.drawSilenceRequest())
	}
	k := schedule.Pick(w.Rand, requestRenew, requestRoundRead, requestCampaign, requestCampaign, requestQueueRead,
		requestLeaveQueue, requestLeaveQueue, requestRegister, requestRegister,
		requestGrant, requestRevoke, requestRead, requestElectionChange, requestElectionChange, requestRecord,
		requestAccuse, requestRemove, requestRefute, requestGuardedWrite, requestResign, requestPlan,
		requestPlan, requestReport, requestReport)
	return faultMoment(w.Rand.IntN(3))*faultMoment(requestKinds) + faultMoment(k)
}

// healAndRecover ends all faults, starts the missing processes, and waits for the cluster to recover.
func (w *world) healAndRecover() {
	w.HealAll()
	for _, h := range w.hosts {
		if h.process == nil {
			w.After(w.Between(0, w.ttl/4), h.ensureStarted)
		}
	}
	healed := w.Now()
	w.After(w.ttl/4+time.Millisecond, func() { w.awaitRecovery(healed) })
}

// writeElsewhere repeatedly writes a key outside the cluster's range.
func (w *world) writeElsewhere() {
	w.After(w.Between(1, w.ttl/10), func() {
		w.changeOutOfBand(byNobody, putOp("/elsewhere", "", 0))
		w.writeElsewhere()
	})
}
