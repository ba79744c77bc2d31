package leaderonly

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/wait"
)

// gate admits requests on the leader, and makes others wait for a leader.
type gate struct {
	leadership Leadership
	wait       time.Duration
	waiting    chan struct{} // limits the waiting requests
}

func newGate(l Leadership, wait time.Duration, most int) *gate {
	return &gate{leadership: l, wait: wait, waiting: make(chan struct{}, most)}
}

// refusal describes why a request was not answered here.
type refusal struct {
	leader Leader
	reason Reason
	detail string
}

// attempt is the passage of one request through the gate.
type attempt struct {
	*gate
	hint  requestHint
	until time.Time // it waits no longer
	tried Leader    // the leader that was not reached, or refused it; zero if none
}

func (g *gate) newAttempt(h requestHint) *attempt {
	return &attempt{gate: g, hint: h, until: time.Now().Add(g.wait)}
}

// runOnLeader runs fn if this process leads, or begins to lead while the request waits. Otherwise it returns the known
// leader, or the reason why none is known.
func (a *attempt) runOnLeader(ctx context.Context, fn func(ctx context.Context)) (done bool, _ refusal) {
	held, lingered := false, false
	for {
		ran := false
		err := a.leadership.AsLeader(ctx, func(ctx context.Context, t Tenure) error {
			ran = true
			fn(context.WithValue(ctx, tenureKey{}, t))
			return nil
		})
		outside := errors.Is(err, leaderelection.ErrNotStarted) || errors.Is(err, leaderelection.ErrStopped)
		switch {
		case ran:
			return true, refusal{}
		case outside && a.hint.retry && !lingered: // otherwise a load balancer would use up its retries at once
			lingered = true
			wait.For(ctx, settleDelay)
			continue
		case outside:
			return false, notReadyRefusal
		}
		l := a.leadership.Leader()
		what, moment := decideRequest(l, a.hint.retry && a.leadership.Next(), a.hint, held, l.sameTerm(a.tried))
		if what == decisionElsewhere || what == decisionWaitBriefly && lingered {
			return false, refusal{leader: l, reason: NotLeader, detail: notLeaderDetail(l)}
		}
		until := a.until
		if what == decisionWaitBriefly {
			until, lingered = earlierTime(until, time.Now().Add(moment)), true
		}
		held = true
		switch refused := a.awaitChange(ctx, l, until); {
		case refused == nil, what == decisionWaitBriefly:
		case refused.reason == NotReady:
			return false, *refused
		default:
			if l = a.leadership.Leader(); l.Leads {
				continue // it has just begun to lead
			}
			return false, refusal{leader: l, reason: reasonOf(l), detail: refused.detail}
		}
	}
}

var notReadyRefusal = refusal{reason: NotReady,
	detail: "this node is starting, or stops; nothing was done; ask another node"}

func notLeaderDetail(l Leader) string {
	if l.Foreign {
		return l.Name + " leads, which is no node and answers no requests; nothing was done; try again when a node leads"
	}
	return "this node does not lead; nothing was done; send the request to the leader"
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// awaitChange waits until the known leader differs from l, and returns nil. Otherwise it returns the reason for the
// failure.
func (a *attempt) awaitChange(ctx context.Context, l Leader, until time.Time) *refusal {
	if !time.Now().Before(until) {
		return &refusal{detail: noLeaderDetail}
	}
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		return &refusal{detail: "too many requests wait for a leader already; nothing was done; try again"}
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := a.leadership.Await(ctx, func() bool {
		now := a.leadership.Leader()
		return !now.sameTerm(l) || now.Leads
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &refusal{detail: noLeaderDetail}
	}
	return &notReadyRefusal // this node will learn nothing new
}

const noLeaderDetail = "there was no leader to answer the request in time; nothing was done; try again"
