package leaderelection

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state"
)

// sessionRun carries out the orders of this node's candidacy for the duration of one session. Its fields are guarded
// by le.mu, but for ownPlace, which belongs to the mirror's goroutine. Results that arrive after its end have no
// effect.
type sessionRun struct {
	le       *LeaderElection
	s        *etcdsession.Session
	history  int
	campaign *campaign // campaign under way; nil if none

	ownCandidate atomic.Pointer[state.Candidate] // the own key as the last step left it; nil if there is none
	ownPlace     state.QueuePlace                // place of ownCandidate in the queue
	candidateKey protectedKey                    // protects the own candidate's key
	actingKey    protectedKey                    // protects the own acting key
}

// run serves one session after the other until the election is stopped.
func (le *LeaderElection) run() {
	var old *etcdsession.Session
	for {
		s, err := le.keeper.Wait(le.ctx, old)
		if err != nil {
			return
		}
		le.runSession(s)
		old = s
		if le.ctx.Err() != nil {
			return
		}
	}
}

// runSession takes a step at every relevant change, wake-up and timer, until the session or the election ends.
func (le *LeaderElection) runSession(s *etcdsession.Session) {
	r := &sessionRun{le: le, s: s}
	if snap := le.mirror.Snapshot(); snap != nil {
		r.history = snap.History
	}
	le.mu.Lock()
	le.sessionRun = r
	le.candidacy = le.candidacy.OnSession(int64(s.ID()), s.TTL())
	le.mu.Unlock()
	sub := le.mirror.Subscribe(r.concerns)
	defer sub.Close()
	defer s.OnChange(le.wake.Send)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-sub.C:
		case <-le.wake:
		case <-timer.C:
		case <-s.Done():
			r.close(candidacy.ReasonSessionLost, s.Err())
			return
		case <-le.ctx.Done():
			r.close(candidacy.ReasonStopped, nil)
			return
		}
		if wait := r.step(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// step decides on the present snapshot and carries out the orders. It returns the time after which to step
// again even if nothing changes; 0 means never.
func (r *sessionRun) step() time.Duration {
	le := r.le
	snap := le.mirror.Snapshot()
	if snap == nil {
		return 0
	}
	if snap.History != r.history {
		r.s.EndLocally(session.ReasonOtherHistory, nil)
		return 0
	}
	le.mu.Lock()
	defer le.mu.Unlock()
	now := time.Now()
	t := le.term.Load()
	period := r.s.Period()
	if t != nil {
		period = t.period // the term ends with its own period, although the session may be in another one by now
	}
	var orders candidacy.Orders
	le.candidacy, orders = le.candidacy.Decide(candidacy.Input{Snapshot: snap, Now: now, Valid: period.ValidDespitePause(),
		Suspected: r.s.Suspected(), WorkRunning: le.workRunning()})
	r.protectKeys()
	if orders.Recovered {
		le.log.Info("the election works again for this node")
		le.failure = nil
	}
	if t := le.lastTerm; t != nil && t.scope.Ended() && t.scope.Busy() && le.candidacy.TermKeyGone(t.token, snap) {
		// The key was deleted during the wait for the work, so another node may lead already.
		t.scope.CutOff(&TermOverError{Token: t.token, Reason: ReasonKeyLost, Err: ErrKeyLost})
	}
	le.endTerm(orders.EndedTerm, endCause(orders.EndedTerm, period))
	r.beginTerm(orders.BegunTerm, period, now)
	if orders.Request.Action != candidacy.NoAction {
		r.startRequest(orders.Request)
	}
	le.notifyLocked()
	r.ownCandidate.Store(le.candidacy.OwnCandidate(snap))
	if le.mirror.Snapshot() != snap || r.s.Period() != period {
		le.wake.Send() // concerns may have judged the newer snapshot by the old ownCandidate
	}
	return orders.RecheckAfter
}

// concerns reports whether a change can matter to this run. The mirror's goroutine calls it for every change
// of the cluster, on every node.
func (r *sessionRun) concerns(before, now *state.Snapshot) bool {
	return candidacy.ChangeMatters(r.ownCandidate.Load(), &r.ownPlace, before, now)
}

// beginTerm starts the term, if began holds one.
func (r *sessionRun) beginTerm(began candidacy.Term, period *etcdsession.Period, now time.Time) {
	if began.Token == 0 {
		return
	}
	le := r.le
	t := le.newTerm(began, int64(r.s.ID()), period, now)
	le.terms++
	le.lastTerm = t
	le.term.Store(t)
	le.log.Info("this node leads", "token", t.token, "mode", string(modeOf(t.acting)), event.Field,
		string(event.LeaderElected))
	le.notifyLocked()
}

// workRunning reports whether functions of the present or the last term run and are waited for. The caller holds
// le.mu.
func (le *LeaderElection) workRunning() bool { return le.lastTerm != nil && le.lastTerm.scope.Busy() }

// endTerm lowers the flag and then ends the context, if a term has ended. The caller holds le.mu.
func (le *LeaderElection) endTerm(ended candidacy.Ending, err error) {
	if ended.Token == 0 {
		return
	}
	t := le.term.Swap(nil)
	over := &TermOverError{Token: t.token, Reason: Reason(ended.Reason), Err: err}
	le.lastEnd = over
	le.termDurations.Observe(time.Since(t.acquired))
	t.scope.End(over)
	if over.Reason == ReasonKeyLost || over.Reason == ReasonSessionLost {
		t.scope.CutOff(over)
	}
	level, why := hclog.Info, string(ended.Reason)
	switch ended.Reason {
	case candidacy.ReasonKeyLost:
		level = hclog.Warn // an out-of-band change
	case candidacy.ReasonRequested:
		why = err.Error()
	}
	le.log.Log(level, "this node no longer leads", "token", t.token, "reason", why, event.Field, string(event.LeaderLost))
	le.notifyLocked()
}

// endCause returns the underlying error of a term's end, or nil if there is none.
func endCause(e candidacy.Ending, period *etcdsession.Period) error {
	if e.Reason == candidacy.ReasonSessionLost {
		return period.EndCause()
	}
	return requestError(e.Request)
}

// requestError describes the request that ended a term, or returns nil if none did.
func requestError(r *state.Request) error {
	switch {
	case r == nil:
		return nil
	case r.Kind == state.RequestTransfer:
		return fmt.Errorf("transfer to %s requested", r.Target)
	}
	return fmt.Errorf("%s requested", r.Kind)
}

// protectedKey makes the session's renewals check that a key exists.
type protectedKey struct {
	protection *etcdsession.Protection
	revision   int64 // the key's CreateRevision; 0 without protection
}

// protectKeys makes the session's renewals check exactly the keys under which this node queues and acts. The caller
// holds le.mu.
func (r *sessionRun) protectKeys() {
	keys, part := r.le.keys, r.le.candidacy
	if queued := part.CandidateRevision(); queued != r.candidateKey.revision {
		r.protectKey(&r.candidateKey, keys.Candidate(int64(r.s.ID())), queued)
	}
	if acts := part.ActingRevision(); acts != r.actingKey.revision {
		r.protectKey(&r.actingKey, keys.Acting(), acts)
	}
}

// protectKey replaces the key that g protects. If a renewal does not find the key, only the candidacy or term under
// that key ends.
func (r *sessionRun) protectKey(g *protectedKey, key string, revision int64) {
	g.release()
	if revision == 0 {
		return
	}
	g.revision = revision
	g.protection = r.s.ProtectKey(key, revision, func() {
		le := r.le
		le.mu.Lock()
		if le.sessionRun == r {
			part, ended := le.candidacy.KeyMissed(revision, time.Now())
			le.candidacy = part
			le.endTerm(ended, nil)
		}
		le.mu.Unlock()
		le.wake.Send()
		le.mirror.Rebuild("a renewal found the own key gone that the watch still shows")
	})
}

func (g *protectedKey) release() {
	if g.protection != nil {
		g.protection.Release()
		*g = protectedKey{}
	}
}

// close ends the run.
func (r *sessionRun) close(reason candidacy.Reason, err error) {
	le := r.le
	le.mu.Lock()
	part, ended := le.candidacy.SessionEnded(reason, time.Now())
	le.candidacy = part
	le.endTerm(ended, err)
	r.candidateKey.release()
	r.actingKey.release()
	if r.campaign != nil {
		r.campaign.cancel()
	}
	if t := le.lastTerm; t != nil {
		t.scope.CutOff(t.scope.EndCause()) // its work has no time to finish
	}
	le.sessionRun = nil
	le.notifyLocked()
	le.mu.Unlock()
}
