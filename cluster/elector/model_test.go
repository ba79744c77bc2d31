package elector

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// turn performs one turn of the shell.
func (w *world) turn(p *process) {
	now := p.now()
	if p.stopped > 0 {
		return
	}
	if p.awaits != nil {
		if now.Mono < p.since.Mono+int64(worldTimeout) {
			return
		}
		p.awaits = nil // given up; it may still be carried out
		p.s = p.s.withFailure(false, now)
	}
	if p.s.leading && (p.stopping || !w.leads(p)) {
		p.s = p.s.withTermEnded()
	}
	if p.s.working && w.draw(3) > 0 {
		p.s = p.s.withCallbacksDone()
	}
	next := p.s.nextStep(now)
	if p.stopping && !p.s.working {
		if w.fault == leavesInFlight {
			p.s.unanswered = false
		}
		next = p.s.releaseStep(now)
	}
	switch next.do {
	case doRest:
		return
	case doFinish:
		w.left(p)
		p.stopping = false
		return
	}
	if w.fault == numberKept && next.do == doUpdate && p.s.record.HolderInstance == p.s.instance {
		next.lease.LeaderTransitions = p.s.record.LeaderTransitions
	}
	p.s = p.s.withRequestSent(next.do)
	p.awaits, p.since = &request{step: next, sent: now}, now
	w.under = append(w.under, p.awaits)
}

// left checks, when a process has left, that it does not hold the lease and that none of its requests can take
// it later.
func (w *world) left(p *process) {
	for _, r := range w.under {
		if l := r.step.lease; l.HolderInstance == p.s.instance && l.Version == w.record.Version && w.fault != blindWrite {
			w.wrong = errors.New("who has left may hold the lease later")
		}
	}
	if w.record.HolderInstance == p.s.instance {
		w.wrong = errors.New("who has left holds the lease")
	}
}

// leads returns the result of IsLeader.
func (w *world) leads(p *process) bool {
	now, until := p.now(), p.s.claim.ValidUntil()
	switch w.fault {
	case noLocalDeadline:
		return p.s.leading
	case monotonicOnly:
		return p.s.leading && now.Mono < until.Mono
	case wallOnly:
		return p.s.leading && now.Wall < until.Wall
	}
	return p.s.leads(now)
}

// carryOut makes the store carry out one of the requests in flight.
func (w *world) carryOut(i int) {
	if i < 0 {
		return
	}
	r := w.under[i]
	w.under = append(w.under[:i:i], w.under[i+1:]...)
	r.done, r.record = true, w.record
	switch {
	case r.step.do == doGet && w.record.Version == "":
		r.err = ErrNotFound
	case r.step.do == doCreate && w.record.Version != "":
		r.err = ErrExists
	case r.step.do == doUpdate && w.record.Version != r.step.lease.Version && w.fault != blindWrite:
		r.err = ErrConflict
	case r.step.do != doGet:
		w.writes++
		w.record = r.step.lease
		w.record.Version = strconv.Itoa(w.writes)
		r.record = w.record
	}
}

// answer delivers to a process the result of its request.
func (w *world) answer(p *process) {
	r, now := p.awaits, p.now()
	if r == nil || !r.done || r.lost || p.stopped > 0 {
		return
	}
	p.awaits = nil
	before := p.s
	switch absent := errors.Is(r.err, ErrNotFound); {
	case r.step.do == doGet && (r.err == nil || absent):
		p.s = p.s.withRead(r.record, !absent, now)
		w.misread(p, before, r)
	case r.err == nil:
		sent := r.sent
		if w.fault == fromReceipt {
			sent = now
		}
		p.s = p.s.withWrite(r.record, sent, now)
		if p.s.leading && !before.leading {
			w.begins(p.s.token)
		}
	default:
		p.s = p.s.withFailure(true, now)
	}
	if w.fault == holdersClock && p.s.found && !p.s.holdsRecord() {
		p.s.since.Mono = now.Mono - (now.Wall - p.s.record.RenewTime.UnixNano())
	}
}

// misread applies the mutants to the answer of a read.
func (w *world) misread(p *process, before leaseState, r *request) {
	switch {
	case w.fault == fromAsking && p.s.record.Version != before.record.Version:
		p.s.since = r.sent
	case w.fault == readBackExtends && p.s.leading && p.s.record.Version != before.record.Version:
		p.s.claim = p.s.claim.OnRenewal(r.sent, p.now())
	}
}

// begins is called for every term. Each has a larger number than those before.
func (w *world) begins(token int64) {
	if token <= w.token {
		w.wrong = fmt.Errorf("a term with token %d begins after one with token %d", token, w.token)
	}
	w.terms++
	w.token = token
}

// check returns an error unless at most one process leads.
func (w *world) check() error {
	leaders := 0
	for _, p := range w.all {
		if w.leads(p) {
			leaders++
		}
	}
	if leaders > 1 {
		return fmt.Errorf("%d lead at once", leaders)
	}
	return w.wrong
}

func seeded(seed uint64, f fault) *world {
	return newWorld(rand.New(rand.NewPCG(seed, 7)).IntN, f)
}

const worldSteps = 600

func TestOneLeadsWhateverHappens(t *testing.T) {
	terms := 0
	for seed := range uint64(3000) {
		w := seeded(seed, "")
		require.NoError(t, w.run(worldSteps), "seed %d", seed)
		terms += w.terms
	}
	t.Logf("%d terms", terms)
	require.Greater(t, terms, 3000, "or the model shows nothing")
}

func TestOneLeadsWhateverIsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "draw") }, "")
		require.NoError(t, w.run(150))
	})
}

// A model that finds no mutants proves nothing.
func TestTheModelFindsMutants(t *testing.T) {
	for _, f := range faults {
		t.Run(string(f), func(t *testing.T) {
			for seed := range uint64(20000) {
				if err := seeded(seed, f).run(worldSteps); errors.Is(err, errUnsafe) {
					t.Logf("schedule %d: %v", seed, err)
					return
				}
			}
			require.Fail(t, "not found")
		})
	}
}

// Either clock of the model ends a term when it has passed the deadline.
func TestEitherClockEndsATerm(t *testing.T) {
	at := deadline.Instant{Mono: 1e9, Wall: 9e9}
	s := leaseState{id: "a", instance: "i", duration: worldLease, period: worldPeriod, next: at.Mono}
	s = s.withRead(Lease{}, false, at)
	first := s.nextStep(at)
	require.Equal(t, doCreate, first.do)
	first.lease.Version = "1"
	s = s.withRequestSent(doCreate).withWrite(first.lease, at, at.Add(worldLease/4))
	end := at.Add(worldLease - worldLease/100)
	require.True(t, s.leads(deadline.Instant{Mono: end.Mono - 1, Wall: end.Wall - 1}))
	require.False(t, s.leads(deadline.Instant{Mono: end.Mono, Wall: at.Wall - 5e9}), "the wall clock was set back")
	require.False(t, s.leads(deadline.Instant{Mono: at.Mono, Wall: end.Wall}), "the machine was suspended")
}
