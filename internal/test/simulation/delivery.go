package simulation

import (
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/test/modeletcd"
)

// delivery draws the delivery of a request of the process. It depends on the kind of request and on the number
// of such requests before it, not on the order in which a process happens to send requests of different kinds.
func (p *process) delivery(request any) modeletcd.Delivery {
	w, h, l, k := p.w, p.host, p.host.link(), p.w.kindOf(request)
	p.draws.Lock()
	p.asked[k]++
	r := newRand(w.seed, streamOf(p.id)+uint64(k)<<40+p.asked[k])
	p.draws.Unlock()
	d := modeletcd.Delivery{Out: h.delay(r, l), Back: h.delay(r, l)}
	if k == toHear {
		return d
	}
	if p.dead.Load() {
		d.Lost = true
		return d
	}
	outcome, after := w.faults.sends(p, k)
	switch outcome {
	case lost:
		d.Lost = true
	case unanswered:
		d.Unanswered = true
	case late:
		d.Out, d.Unanswered = d.Out+after, true
	}
	d.Lost = d.Lost || l.noRequests
	d.Unanswered = d.Unanswered || l.noAnswers
	if p.refused(request, l) {
		d.Refused = modeletcd.Denied
	}
	if outcome != arrives {
		w.log.of(p, "its %s %s", k, outcome)
	}
	if d.Lost || d.Unanswered {
		w.checks.doomed(p, k, outcome)
	}
	if k == toWatch {
		w.checks.opens(p, d.Out+d.Back, d.Lost)
	}
	by := w.checks.sent(p, k, request)
	d.CarriedOut = func(answer any, err error) {
		w.log.carriedOut(p, k, answer, err)
		w.checks.carriedOut(p, k, request, by, answer, err)
		w.faults.moment(p, carriedOut+moment(k))
		w.look()
	}
	d.Answered = func(answer any, err error) {
		w.checks.answered(p, k, answer, err)
		w.faults.moment(p, gotAnswer+moment(k))
		w.look()
	}
	return d
}

// delay draws the duration of one way to etcd or back.
func (h *host) delay(r *rand.Rand, l link) time.Duration {
	return h.distance + between(r, leastHop, mostHop) + between(r, 0, l.slow) +
		between(r, 0, l.busy)
}

// refused reports whether etcd's access control refuses a request: a write to the queue, or the renewal or
// revocation of a lease with a key in it.
func (p *process) refused(request any, l link) bool {
	switch r := request.(type) {
	case *pb.TxnRequest:
		return l.denied && p.w.touchesQueue(r)
	case *pb.LeaseKeepAliveRequest:
		return l.denied && p.w.checks.queued(r.ID)
	case *pb.LeaseRevokeRequest:
		return l.denied && p.w.checks.queued(r.ID)
	}
	return false
}

// carriedOut notes etcd's execution of a request.
func (t *transcript) carriedOut(p *process, k kind, answer any, err error) {
	if !t.on || err == nil && (k == toRenew || k == toCheck || k == toMeasure) {
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
	t.of(p, "etcd got its %s: %s", k, what)
}
