package simulation

import (
	"errors"
	"slices"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/candidacy"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/txn"
)

// leaderElection stands for the shell of leaderelection: it keeps the candidacy, tells it
// what happens, and carries its orders out.
type leaderElection struct {
	p     *process
	part  candidacy.Candidacy
	round *round // on the present session, nil between two
	term  *term  // that this node leads by, nil when none
	ended *term  // the last one, while its work may be running
	poked bool
}

// round stands for leaderelection's.
type round struct {
	e       *leaderElection
	s       *session
	active  *campaign
	settled *state.Candidate
	place   state.Place
	queued  int64 // CreateRevision of the key that is protected; 0: none
	acts    int64
	again   int // counts timers
}

// term stands for leaderelection.Term.
type term struct {
	candidacy.Term
	s      *session
	period int
	work   int // functions in it

	lapsed  bool  // there was a moment at which it did not count
	endedAt int64 // on the monotonic clock
	stoodAt int64 // the revision at which its key was looked at last
	fallen  string
}

// valid is Term.period.Valid.
func (t *term) valid() bool { return t.s.validSince(t.period) }

// serve begins a round on a session that was registered.
func (e *leaderElection) serve(s *session) {
	if e.round != nil {
		e.close(e.round.s, election.ReasonSessionLost)
	}
	e.round = &round{e: e, s: s}
	e.part = e.part.On(s.lease, e.p.w.ttl)
	e.poke()
}

// close ends the round on a session.
func (e *leaderElection) close(s *session, why election.Reason) {
	r := e.round
	if r == nil || r.s != s {
		return
	}
	part, ended := e.part.Close(why, e.p.host.time())
	e.part = part
	e.over(ended)
	e.round = nil
	if r.active != nil {
		r.active.cancel()
	}
}

// poke makes the loop look, soon.
func (e *leaderElection) poke() {
	if !e.poked {
		e.poked = true
		e.p.soon(e.step)
	}
}

// concerned is the subscription's filter.
func (e *leaderElection) concerned(before, now *state.Snapshot) bool {
	r := e.round
	return r != nil && candidacy.Concerns(r.settled, &r.place, before, now)
}

// step is round.step.
func (e *leaderElection) step() {
	e.poked = false
	r, p := e.round, e.p
	if r == nil || r.s.lost != "" {
		return
	}
	snap := p.mirror.snapshot
	failed := e.part.Failed()
	period := r.s.claim.Period()
	if e.term != nil {
		period = e.term.period
	}
	part, orders := e.part.Look(candidacy.Seen{Snapshot: snap, Now: p.host.time(), Valid: r.s.validSince(period),
		Suspected: r.s.claim.Suspected(),
		Inside:    e.term != nil && e.term.work > 0, Working: e.ended != nil && e.ended.work > 0})
	e.part = part
	r.protect()
	if orders.GaveUp {
		p.w.checks.count(WorkGivenUp)
		e.ended = nil
	}
	e.over(orders.Ended)
	e.begin(orders.Began, period)
	if r.s.claim.Period() != period {
		e.poke()
	}
	if orders.Do.Kind != candidacy.None {
		r.start(orders.Do)
	}
	if failed != part.Failed() {
		e.followed()
	}
	r.settled = part.Settled(snap)
	if orders.Again > 0 {
		r.again++
		mine := r.again
		p.after(orders.Again, func() {
			if r.again == mine && e.round == r {
				e.step()
			}
		})
	}
}

// begin is round.beginTerm.
func (e *leaderElection) begin(began candidacy.Term, period int) {
	if began.Token == 0 {
		return
	}
	e.term = &term{Term: began, s: e.round.s, period: period}
	if log := e.p.w.log; log != nil {
		log.of(e.p, "LEADS with token %d (%s)", began.Token, began.Mode)
	}
	e.p.w.checks.began(e.p, began)
	e.p.planner.poke()
	e.work()
}

// over is LeaderElection.endTerm.
func (e *leaderElection) over(ended candidacy.Ending) {
	if ended.Token == 0 {
		return
	}
	e.ended, e.term = e.term, nil
	e.ended.endedAt = e.p.host.mono()
	if log := e.p.w.log; log != nil {
		log.of(e.p, "leads no longer with token %d: %s", ended.Token, ended.Reason)
	}
	e.p.w.checks.ended(e.p, ended)
	e.p.planner.poke()
	e.endWork()
	e.p.w.faults.moment(e.p, termEnded)
}

// followed is Cluster.followElection: the record says whether the election failed.
func (e *leaderElection) followed() {
	failed := e.part.Failed()
	if log := e.p.w.log; log != nil {
		log.of(e.p, "the election has failed for it: %t", failed)
	}
	e.p.member.want(func(r *state.Record) { r.ElectionFailed = failed })
}

// protect is round.protect.
func (r *round) protect() {
	e := r.e
	keys := e.p.w.keys
	if q := e.part.Queued(); q != r.queued {
		e.p.w.checks.queued(e.p, q)
		r.hold(keys.Candidate(r.s.lease), r.queued, q)
		r.queued = q
	}
	if a := e.part.Acts(); a != r.acts {
		r.hold(keys.Acting(), r.acts, a)
		r.acts = a
	}
}

func (r *round) hold(key string, before, now int64) {
	r.s.release(key, before)
	if now == 0 {
		return
	}
	r.s.protect(key, now, func() {
		e := r.e
		e.p.w.checks.count(KeyMissed)
		if e.round == r {
			part, ended := e.part.Missed(now, e.p.host.time())
			e.part = part
			e.over(ended)
		}
		e.poke()
		e.p.mirror.requestRebuild()
	})
}

// start is round.start.
func (r *round) start(req candidacy.Request) {
	old := r.active
	done := func(err error) { r.finished(req, err) }
	switch req.Kind {
	case candidacy.Join:
		r.endCampaign(old, func() { r.join(); done(nil) })
	case candidacy.Leave:
		r.endCampaign(old, func() { r.resign(req.Revision, done) })
	case candidacy.Abandon:
		r.endCampaign(old, func() { done(nil) })
	default:
		if req.Kind == candidacy.Rewrite {
			r.e.p.w.checks.count(KeyRewritten)
		}
		r.e.p.change(toChange, requestTimeout, req.Change, func(_ answer, err error) { done(err) })
	}
}

func (r *round) finished(req candidacy.Request, err error) {
	e := r.e
	if e.round != r {
		return
	}
	hopeless := false
	e.part, hopeless = e.part.Finished(req, how(err), e.p.host.time())
	if hopeless {
		r.s.lose("permission")
	}
	e.poke()
}

func how(err error) candidacy.Outcome {
	switch {
	case err == nil:
		return candidacy.Worked
	case errors.Is(err, errDenied):
		return candidacy.Denied
	}
	return candidacy.Failed
}

func (r *round) endCampaign(c *campaign, then func()) {
	if c == nil || c.ended {
		then()
		return
	}
	c.after = append(c.after, then)
	c.cancel()
}

// resign deletes the candidate's key: concurrency.Election.Resign.
func (r *round) resign(revision int64, done func(error)) {
	p := r.e.p
	known := p.mirror.known
	p.change(toLeave, requestTimeout, leave(p.w.keys, r.s.lease, revision), func(a answer, err error) {
		if err == nil {
			p.mirror.saw(a.revision, known)
		}
		done(err)
	})
}

// published tells a campaign that waits for the one before it.
func (e *leaderElection) published(s *state.Snapshot) {
	if r := e.round; r != nil && r.active != nil {
		r.active.published(s)
	}
}

// resignNow is LeaderElection.Resign; it does not wait.
func (e *leaderElection) resignNow() {
	if !e.p.leads() {
		return
	}
	if log := e.p.w.log; log != nil {
		log.of(e.p, "is asked to resign")
	}
	e.p.w.checks.asked(e.term.Token)
	part, ended := e.part.Resign(e.p.host.time(), e.p.mirror.snapshot)
	e.part = part
	e.over(ended)
	e.poke()
}

// withdraw is LeaderElection.Withdraw: then is when it returns.
func (e *leaderElection) withdraw(then func()) {
	part, ended := e.part.Withdraw(e.p.host.time())
	e.part = part
	e.over(ended)
	e.poke()
	e.p.await(workTimeout, func() bool {
		return e.round == nil || e.term == nil && (e.ended == nil || e.ended.work == 0)
	}, func() {
		e.p.await(requestTimeout, func() bool { return e.round == nil || e.part.Clear(e.p.mirror.snapshot) }, then)
	})
}

// leave is what concurrency.Election.Resign sends.
func leave(keys state.Keys, lease, revision int64) txn.Txn {
	key := keys.Candidate(lease)
	return txn.Txn{If: []txn.Guard{{Key: key, Is: revision}}, Then: []txn.Op{{Kind: txn.Delete, Key: key}}}
}

// drop takes v out of s.
func drop[T comparable](s []T, v T) []T {
	return slices.DeleteFunc(s, func(x T) bool { return x == v })
}
