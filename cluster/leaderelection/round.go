package leaderelection

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/state"
)

// round is this node's part in the election on one session. Its fields are
// guarded by le.mu. It ends with the session; nothing of it is carried over but
// whether the election failed.
type round struct {
	le      *LeaderElection
	s       *session.Session
	history int

	barred   int64
	gone     int64
	campaign campaignState
	active   *campaign // the call under way, nil when none
	busy     bool
	failures failures
	retryAt  time.Time // no write to the own keys before
	refused  int       // writes to the own keys that failed in a row

	settled   atomic.Pointer[state.Candidate] // the own key as the last step left it; nil when it has none
	place     state.Place                     // of that
	candidacy guard                           // of the own candidate's key
	acting    guard                           // of the own acting key
}

// guard makes the session's renewals look for a key.
type guard struct {
	protection *session.Protection
	revision   int64 // the key's CreateRevision; 0 when there is no protection
}

// run serves one session after the other until the election is stopped.
func (le *LeaderElection) run() {
	var old *session.Session
	for {
		s, err := le.keeper.Wait(le.ctx, old)
		if err != nil {
			return
		}
		le.serve(s)
		old = s
		if le.ctx.Err() != nil {
			return
		}
	}
}

// serve looks at every new snapshot, and whenever it is poked or a wait is over,
// until the session or the election ends.
func (le *LeaderElection) serve(s *session.Session) {
	r := &round{le: le, s: s}
	if snap := le.mirror.Snapshot(); snap != nil {
		r.history = snap.History
	}
	le.mu.Lock()
	le.round = r
	le.mu.Unlock()
	sub := le.mirror.Subscribe(r.concerns)
	defer sub.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-sub.C:
		case <-le.wake:
		case <-timer.C:
		case <-s.Done():
			r.close(ReasonSessionLost, s.Err())
			return
		case <-le.ctx.Done():
			r.close(ReasonStopped, nil)
			return
		}
		if wait := r.step(); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// step decides once and carries the decision out. It returns after which time to
// look again even if nothing happens; 0 is never.
func (r *round) step() time.Duration {
	le := r.le
	snap := le.mirror.Snapshot()
	if snap == nil {
		return 0
	}
	if snap.History != r.history {
		r.s.Lose(session.ReasonOtherHistory, nil)
		return 0
	}
	le.mu.Lock()
	defer le.mu.Unlock()
	now := time.Now()
	r.look(snap)
	v := r.view(snap, now)
	d := decide(v)

	if t := le.term.Load(); t != nil && t.token != d.lead {
		reason := r.whyOver(t, snap)
		var err error
		if reason == ReasonRequested {
			err = requested(snap.Request)
		}
		r.endTerm(t, reason, err)
		v = r.view(snap, now)
		d = decide(v)
	}
	if d.lead != 0 && le.term.Load() == nil {
		r.beginTerm(d, now)
	}
	if d.do != none && !now.Before(r.retryAt) {
		r.start(d)
	}
	le.notifyLocked()
	r.settled.Store(r.candidate(snap))
	if le.mirror.Snapshot() != snap {
		le.poke() // concerns may have judged the newer one by what was settled before
	}
	return r.nextLook(now)
}

// concerns reports whether a change can matter to this round. It runs in the
// mirror's goroutine, at every change of the cluster on every node.
func (r *round) concerns(before, now *state.Snapshot) bool {
	own := r.settled.Load()
	switch {
	case own == nil || r.place.Find(now, own.CreateRevision) != own:
		return true
	case now.Request != nil || now.Acting != nil || before.Request != now.Request || before.Acting != now.Acting:
		return true
	}
	return now.Head() == own && before.Head() != own
}

// candidate is the own key in snap, nil if there is none that this node stands
// with.
func (r *round) candidate(snap *state.Snapshot) *state.Candidate {
	own, _ := snap.Candidate(int64(r.s.ID()))
	if own == nil || own.CreateRevision != r.candidacy.revision {
		return nil
	}
	return own
}

// look takes note of what the snapshot shows of the own candidate key.
func (r *round) look(snap *state.Snapshot) {
	if a := snap.Acting; a == nil || a.Lease != int64(r.s.ID()) || a.CreateRevision <= r.barred {
		r.acting.release()
	} else {
		r.protect(&r.acting, r.le.keys.Acting(), a.CreateRevision)
	}
	own, _ := snap.Candidate(int64(r.s.ID()))
	switch {
	case own == nil || own.CreateRevision <= r.barred:
		r.candidacy.release()
	case own.CreateRevision != r.candidacy.revision:
		r.protect(&r.candidacy, own.Key, own.CreateRevision)
		r.failures = failures{}
		if r.le.failed != nil {
			r.le.log.Info("the election works again for this node")
			r.le.failed = nil
			r.le.notifyLocked()
		}
	}
	if own == nil && r.campaign.running && !r.campaign.waiting(snap) {
		// The key it queues with is gone: it would wait on, or win, for nothing.
		r.barred = max(r.barred, r.campaign.joined)
	}
}

func (r *round) view(snap *state.Snapshot, now time.Time) view {
	le := r.le
	v := view{snapshot: snap, lease: int64(r.s.ID()), address: le.cfg.Address, valid: r.s.Valid(),
		standing: le.standing, fallback: le.cfg.Fallback, failed: le.failed != nil,
		barred: r.barred, gone: r.gone, campaign: r.campaign, due: !now.Before(r.failures.nextTry), busy: r.busy}
	if t := le.term.Load(); t != nil {
		v.term = t.token
	}
	if t := le.ended; t != nil && t.work > 0 {
		v.working = now.Before(t.giveUpAt)
		if !v.working {
			le.log.Warn("work of the last term goes on after its context ended; not waiting for it any longer",
				"token", t.token, "functions", t.work)
			le.ended = nil
		}
	}
	return v
}

// nextLook is the nearest of the instants at which a wait is over.
func (r *round) nextLook(now time.Time) time.Duration {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	consider(r.retryAt)
	consider(r.failures.nextTry)
	if t := r.le.ended; t != nil && t.work > 0 {
		consider(t.giveUpAt)
	}
	if next.IsZero() {
		return 0
	}
	return next.Sub(now)
}

func (r *round) beginTerm(d decision, now time.Time) {
	le := r.le
	t := &Term{token: d.lead, mode: d.mode, acquired: now, session: r.s, le: le, round: r,
		key: le.keys.Candidate(int64(r.s.ID()))}
	if d.mode == state.ModeFallback {
		t.key = le.keys.Acting()
	}
	t.ctx, t.cancel = context.WithCancelCause(r.s.Context())
	le.terms++
	le.term.Store(t)
	le.log.Info("this node leads", "token", t.token, "mode", string(t.mode))
	le.notifyLocked()
}

// endTerm lowers the flag, then ends the context. The key that led is barred.
func (r *round) endTerm(t *Term, reason Reason, err error) {
	le := r.le
	le.term.CompareAndSwap(t, nil)
	if t.over {
		return
	}
	t.over = true
	t.giveUpAt = time.Now().Add(le.cfg.WorkTimeout)
	r.barred = max(r.barred, t.token)
	over := &TermOverError{Token: t.token, Reason: reason, Err: err}
	le.lastEnd = over
	le.ended = t
	t.cancel(over)
	if reason == ReasonResigned || reason == ReasonRequested {
		if snap := le.mirror.Snapshot(); snap != nil && len(snap.Queue) > 1 {
			r.failures.nextTry = time.Now().Add(requeueDelay)
		}
	}
	level, why := hclog.Info, string(reason)
	switch reason {
	case ReasonKeyLost:
		level = hclog.Warn // by somebody's hand
	case ReasonRequested:
		why = err.Error()
	}
	le.log.Log(level, "this node no longer leads", "token", t.token, "reason", why)
	le.notifyLocked()
}

// requested is what the request that ended a term asked for.
func requested(r *state.Request) error {
	if r.Kind == state.RequestTransfer {
		return fmt.Errorf("transfer to %s requested", r.Target)
	}
	return fmt.Errorf("%s requested", r.Kind)
}

// whyOver names the reason for which decide let go of t.
func (r *round) whyOver(t *Term, snap *state.Snapshot) Reason {
	own, place := snap.Candidate(int64(r.s.ID()))
	switch {
	case !r.s.Valid():
		return ReasonSessionLost
	case !r.le.standing:
		return ReasonStopped
	case t.mode == state.ModeFallback:
		if a := snap.Acting; a == nil || a.CreateRevision != t.token {
			return ReasonKeyLost
		}
		return ReasonSuperseded
	case own != nil && own.CreateRevision == t.token && yields(snap, place):
		return ReasonRequested
	}
	return ReasonKeyLost
}

// protect makes the session's renewals look for the key under which this node
// queues or leads; a renewal that misses it ends the candidacy or term alone.
func (r *round) protect(g *guard, key string, revision int64) {
	if g.revision == revision {
		return
	}
	g.release()
	g.revision = revision
	g.protection = r.s.Protect(key, revision, func() {
		le := r.le
		le.mu.Lock()
		if t := le.term.Load(); t != nil && t.round == r && t.token == revision {
			r.endTerm(t, ReasonKeyLost, nil)
		}
		r.barred = max(r.barred, revision)
		le.mu.Unlock()
		le.poke()
		le.mirror.Rebuild("a renewal found the own key gone that the watch still shows")
	})
}

func (g *guard) release() {
	if g.protection != nil {
		g.protection.Release()
		*g = guard{}
	}
}

// vanished reports whether the snapshot shows that the key created at revision
// is gone, by whatever hand.
func (r *round) vanished(revision int64) bool {
	snap := r.le.mirror.Snapshot()
	if snap == nil || snap.Revision < revision || snap.Acting != nil && snap.Acting.CreateRevision == revision {
		return false
	}
	own, _ := snap.Candidate(int64(r.s.ID()))
	return own == nil || own.CreateRevision != revision
}

// clear reports whether nothing of this node is left in the queue.
func (r *round) clear() bool {
	snap := r.le.mirror.Snapshot()
	if snap == nil || r.busy || r.campaign.running || max(snap.Revision, r.gone) < r.barred {
		return false
	}
	if t := r.le.term.Load(); t != nil && t.round == r {
		return false
	}
	own, _ := snap.Candidate(int64(r.s.ID()))
	acting := snap.Acting != nil && snap.Acting.Lease == int64(r.s.ID()) && snap.Acting.CreateRevision > r.gone
	return (own == nil || own.CreateRevision <= r.gone) && !acting
}

// close ends the round: with the session gone there is nothing left to delete.
func (r *round) close(reason Reason, err error) {
	le := r.le
	le.mu.Lock()
	if t := le.term.Load(); t != nil && t.round == r {
		r.endTerm(t, reason, err)
	}
	r.candidacy.release()
	r.acting.release()
	if r.active != nil {
		r.active.cancel()
	}
	le.round = nil
	le.notifyLocked()
	le.mu.Unlock()
}
