package simulation

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/test/schedule"
)

// drawDelivery draws the delivery of a request of the process, and notifies the checks of its course.
func (p *process) drawDelivery(request any) modeletcd.Delivery {
	w, k := p.w, p.w.kindOf(request)
	if k == requestProofRead && w.checks.completesRound(p) {
		k = requestRoundRead
	}
	if k != requestWatchResponse {
		if p.dead.Load() {
			return modeletcd.Delivery{Lost: true}
		}
		w.faults.reachMoment(p, momentSent+faultMoment(k))
	}
	d, outcome := p.host.link.Deliver(uint64(k), request)
	if k == requestWatchResponse {
		return d
	}
	if outcome != schedule.Arrives {
		p.logf("its %s: %s", k, outcome)
	}
	if d.Lost || d.Unanswered {
		w.checks.recordUnanswered(p, k)
	}
	if k == requestWatch {
		w.checks.recordWatchOpen(p, d.Out+d.Back, d.Lost)
	}
	by := w.checks.recordSent(p, k, request)
	w.checks.checkSilenceSent(p, k, request)
	d.CarriedOut = func(answer any, err error) {
		p.logExecuted(k, answer, err)
		w.checks.checkExecuted(p, k, request, by, answer, err)
		w.faults.reachMoment(p, momentExecuted+faultMoment(k))
		w.wakeChecks()
	}
	d.Answered = func(answer any, err error) {
		w.checks.recordAnswer(p, k, request, answer, err)
		if a, _ := answer.(*pb.TxnResponse); k == requestAccuseSilent && err == nil && a.Succeeded {
			w.checks.recordSilenceAnswer(p, request)
		}
		w.faults.reachMoment(p, momentAnswered+faultMoment(k))
		w.wakeChecks()
	}
	return d
}

// concernsCandidate reports whether a denial of the queue concerns a request: a write to the queue, or the renewal
// or revocation of a lease with a key in it.
func (w *world) concernsCandidate(request any, queue string) bool {
	switch r := request.(type) {
	case *pb.TxnRequest:
		return schedule.Writes(r, queue)
	case *pb.LeaseKeepAliveRequest:
		return w.checks.candidateQueued(r.ID)
	case *pb.LeaseRevokeRequest:
		return w.checks.candidateQueued(r.ID)
	}
	return false
}

// logExecuted records etcd's execution of a request.
func (p *process) logExecuted(k requestKind, answer any, err error) {
	if !p.w.Log.On() || err == nil && (k == requestRenew || k == requestRoundRead || k == requestMeasure) {
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
	p.logf("etcd got its %s: %s", k, what)
}
