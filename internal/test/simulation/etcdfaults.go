package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/test/schedule"
)

func loseRequest(w *world, h *host) {
	k := schedule.Pick(w.Rand, requestRead, requestGrant, requestRenew, requestRoundRead,
		requestRevoke, requestRegister, requestRegister, requestRecord,
		requestCampaign, requestCampaign, requestCampaign, requestQueueRead, requestLeaveQueue, requestLeaveQueue,
		requestLeaveQueue, requestElectionChange, requestElectionChange, requestGuardedWrite, requestGuardedWrite,
		requestAccuse, requestRemove, requestRefute, requestResign, requestPlan, requestPlan, requestReport,
		requestReport)
	w.loseRequestOf(h, k)
}

// loseRequestOf loses, delays, or leaves unanswered a request of a kind.
func (w *world) loseRequestOf(h *host, k requestKind) {
	r := schedule.Rule{Group: uint64(k), Skip: w.Rand.IntN(3)}
	if !w.OneIn(3) {
		r.Link, r.Skip = h.link, w.Rand.IntN(2)
	}
	r.Outcome = schedule.Pick(w.Rand, schedule.Lost, schedule.Unanswered, schedule.Unanswered, schedule.Late,
		schedule.Late)
	r.Delay = w.Between(0, w.ttl)
	if w.OneIn(3) {
		r.Delay = w.Between(0, 2*w.ttl)
	}
	w.addRule(r)
}

// addRule adds a rule for the outcome of a request.
func (w *world) addRule(r schedule.Rule) {
	of := "any process"
	if r.Link != nil {
		of = r.Link.Name
	}
	if r.Outcome != schedule.Late {
		r.Delay = 0
	}
	w.noteFault(nil, "%s of %s after %d others: %s", requestKind(r.Group), of, r.Skip, r.Outcome)
	w.AddRule(r)
}

// delayNext delays the next request of that kind, of a host or with nil of any, beyond its time-out.
func (w *world) delayNext(h *host, k requestKind) {
	r := schedule.Rule{Group: uint64(k), Outcome: schedule.Late, Delay: w.Between(0, w.ttl)}
	if h != nil {
		r.Link = h.link
	}
	w.addRule(r)
}

func loseMessages(w *world, h *host) {
	how := w.Rand.IntN(3)
	h.link.LoseMessages(w.drawDuration(h), how != 1, how != 2)
}

// slowThenCut delays etcd's answers until a renewal has been answered, and then cuts the connection for long.
func slowThenCut(w *world, h *host) {
	h.link.SlowDown(w.ttl, w.Between(0, w.ttl/5))
	w.faults.addTrigger(faultTrigger{moment: momentAnswered + faultMoment(requestRoundRead), host: h,
		begin: func() { h.link.CutOff(w.ttl + w.Between(0, w.ttl)) }})
}

// silenceWatch lets a watch deliver nothing any more without any error; or the next one, after it was opened.
func silenceWatch(w *world, h *host) {
	if h.process != nil {
		silenceWatchOf(w, h, w.OneIn(2))
	}
}

// silenceWatchOf lets the watch of a host's process deliver nothing any more, or with next the next one.
func silenceWatchOf(w *world, h *host, next bool) {
	p := h.process
	w.noteFault(h, "its watch is silent (the next one: %t)", next)
	w.checks.recordBlindWatch(p, next)
	p.conn.SilenceWatches(next)
}

func electEtcd(w *world, _ *host) {
	w.noteFault(nil, "etcd elects another leader: every lease gets another TTL")
	w.Etcd.Elect(w.Rand.IntN(w.Members))
	for _, h := range w.hosts {
		if w.OneIn(2) {
			h.link.BreakWatch()
		}
	}
	w.StopEtcd(w.Between(0, time.Second))
}

// denyCandidates lets etcd refuse the candidates' keys of one host, of some or of all.
func denyCandidates(w *world, h *host) {
	d := w.drawDuration(h)
	others := w.Rand.IntN(3)
	for _, x := range w.hosts {
		if x == h || others == 1 && w.OneIn(2) || others == 2 {
			x.denyCandidacy(max(d+w.Between(-50*time.Millisecond, 50*time.Millisecond), 0))
		}
	}
}

func (h *host) denyCandidacy(d time.Duration) {
	h.link.Deny(d, h.w.keys.Queue(), func() { h.allowed = h.w.Now() })
}
