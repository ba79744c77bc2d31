package simulation

import (
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// drawDelivery draws the delivery of a request of the process. It depends on the kind of request and on the number
// of such requests before it, not on the order in which a process happens to send requests of different kinds.
func (p *process) drawDelivery(request any) modeletcd.Delivery {
	w, h, l, k := p.w, p.host, p.host.link(), p.w.kindOf(request)
	p.randMu.Lock()
	p.requestCounts[k]++
	r := newRand(w.seed, streamOf(p.id)+uint64(k)<<40+p.requestCounts[k])
	p.randMu.Unlock()
	d := modeletcd.Delivery{Out: h.drawDelay(r, l), Back: h.drawDelay(r, l)}
	if k == requestWatchResponse {
		return d
	}
	if p.dead.Load() {
		d.Lost = true
		return d
	}
	outcome, after := w.faults.nextOutcome(p, k)
	switch outcome {
	case outcomeLost:
		d.Lost = true
	case outcomeUnanswered:
		d.Unanswered = true
	case outcomeLate:
		d.Out, d.Unanswered = d.Out+after, true
	}
	d.Lost = d.Lost || l.noRequests
	d.Unanswered = d.Unanswered || l.noAnswers
	if p.isDenied(request, l) {
		d.Refused = modeletcd.Denied
	}
	if outcome != outcomeArrives {
		w.log.addProcessLine(p, "its %s %s", k, outcome)
	}
	if d.Lost || d.Unanswered {
		w.checks.recordDoomed(p, k, outcome)
	}
	if k == requestWatch {
		w.checks.recordWatchOpen(p, d.Out+d.Back, d.Lost)
	}
	by := w.checks.recordSent(p, k, request)
	d.CarriedOut = func(answer any, err error) {
		w.log.noteExecuted(p, k, answer, err)
		w.checks.checkExecuted(p, k, request, by, answer, err)
		w.faults.reachMoment(p, momentExecuted+faultMoment(k))
		w.wakeChecks()
	}
	d.Answered = func(answer any, err error) {
		w.checks.recordAnswer(p, k, answer, err)
		w.faults.reachMoment(p, momentAnswered+faultMoment(k))
		w.wakeChecks()
	}
	return d
}

// drawDelay draws the duration of one way to etcd or back.
func (h *host) drawDelay(r *rand.Rand, l link) time.Duration {
	return h.distance + drawBetween(r, minHop, maxHop) + drawBetween(r, 0, l.slow) +
		drawBetween(r, 0, l.busy)
}

// isDenied reports whether etcd's access control refuses a request: a write to the queue, or the renewal or
// revocation of a lease with a key in it.
func (p *process) isDenied(request any, l link) bool {
	switch r := request.(type) {
	case *pb.TxnRequest:
		return l.denied && p.w.touchesQueue(r)
	case *pb.LeaseKeepAliveRequest:
		return l.denied && p.w.checks.candidateQueued(r.ID)
	case *pb.LeaseRevokeRequest:
		return l.denied && p.w.checks.candidateQueued(r.ID)
	}
	return false
}

// noteExecuted notes etcd's execution of a request.
func (t *transcript) noteExecuted(p *process, k requestKind, answer any, err error) {
	if !t.on || err == nil && (k == requestRenew || k == requestRoundRead || k == requestMeasure) {
		return
	}
	what := "done"
	switch a := answer.(type) {
	case *pb.TxnResponse:
		if err == nil && !a.Succeeded {
			what = "a guard does not hold"
		}
	}
	if err != nil {
		what = rpctypes.Error(err).Error()
	}
	t.addProcessLine(p, "etcd got its %s: %s", k, what)
}
