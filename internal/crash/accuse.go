package crash

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/crash/silence"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/hedge"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// A request about a silent member is sent again, at another endpoint, while it has no answer: first after five round
	// trips to etcd and leastGap at least, and then less often, because etcd may be slow to write, but every maxGap where
	// etcd is near. What a member of etcd forwards to a lost leader is lost, until another one is elected.
	leastGap, maxGap = 100 * time.Millisecond, 150 * time.Millisecond
	// refusedPause is the pause after etcd has refused the user.
	refusedPause = 5 * time.Second
)

// attemptPause is the policy for the pause after an attempt that failed at once.
var attemptPause = backoff.Policy{First: 20 * time.Millisecond, Last: time.Second}

// evidenceSilence is the evidence in the log.
const evidenceSilence = "it acknowledges nothing, and has not answered the accusation"

// silenceAccuser holds the judge about one watched member, and carries out its decisions. One goroutine at a time
// does so.
type silenceAccuser struct {
	w *watchedMember

	mu      sync.Mutex
	judge   silence.Judge
	session *etcdsession.Session // the session of this process for which the judge counts
	self    *state.Member        // this process's member on it
	newest  uint64               // arming of this process by the member, also while released
	busy    bool
	idle    wait.Signal // signals that busy was reset
	// released is set when this process is about to say goodbye. A heartbeat that is under way then must not arm it: the
	// member counts on the goodbye, and this process goes on until its receipt is confirmed.
	released bool
	sign     time.Duration // when the member last showed that it runs

	// Of the goroutine that sends requests:

	removing *state.Member // the member as it was when its removal was first sent
	failures int           // successive attempts that failed
	refused  bool          // it was logged that etcd refuses the user
}

func (a *silenceAccuser) now() time.Duration { return time.Duration(a.w.d.cfg.Clock().Mono) }

// heardBeat is called with each heartbeat that arms this process. It reports whether to acknowledge it.
func (w *watchedMember) heardBeat(b heartbeat.Beat) bool {
	if w.d.cfg.Settings.Off || b.Watched != w.incarnation {
		return false
	}
	own, session := w.d.registered()
	if own == nil || own.Incarnation != b.Watcher {
		return false
	}
	return w.silence.onBeat(b, own, session)
}

// onBeat is called with a heartbeat that arms this process's member own, which is registered on session.
func (a *silenceAccuser) onBeat(b heartbeat.Beat, own *state.Member, session *etcdsession.Session) (acknowledge bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.newest, a.sign = max(a.newest, b.Arming), a.now()
	if a.released {
		return false
	}
	if a.session != session {
		if a.busy {
			return false // the former session's accusation is void; its end is awaited
		}
		// Another incarnation of this member: it has accused no member yet. It is registered, so the former one's key is
		// gone, and etcd refuses what that one has sent.
		a.session, a.self, a.judge = session, own, silence.Judge{}
	}
	a.judge, acknowledge = a.judge.OnBeat(a.now(), b)
	a.actLocked()
	return acknowledge
}

// registered returns this process's member and the session on which it is registered, or nil. After the loss of a
// session it returns nil until another one is registered, although the snapshot may still show the former member.
func (d *Detector) registered() (*state.Member, *etcdsession.Session) {
	s, session := d.cfg.Mirror.Snapshot(), d.cfg.Keeper.Current()
	if s == nil || session == nil || session.Err() != nil {
		return nil, nil
	}
	own := s.Member(d.cfg.Address)
	if own == nil || own.InstanceID != d.cfg.InstanceID || own.KeyLease != int64(session.ID()) || s.Lingers(own) {
		return nil, nil
	}
	return own, session
}

// checkSilence looks at the clock for the judge about w.
func (w *watchedMember) checkSilence() {
	a := &w.silence
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.released:
		return
	case a.session != nil && a.session.Err() != nil && !a.busy:
		// What it sent under that incarnation is void once its key is gone: see onBeat. Until then it may say goodbye only
		// if it has accused of nothing.
		if a.judge.CanRelease() {
			a.session, a.self, a.judge = nil, nil, silence.Judge{}
		}
		return
	}
	a.judge = a.judge.OnCheck(a.now())
	a.actLocked()
}

// arming returns the newest arming of this process by the member, 0 if there is none.
func (a *silenceAccuser) arming() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.newest
}

// inheritArming remembers an arming of this process of which an earlier case about the member has learned.
func (a *silenceAccuser) inheritArming(arming uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.newest = max(a.newest, arming)
}

// actLocked starts a goroutine that carries out what the judge has decided, unless one does. The lock is held.
func (a *silenceAccuser) actLocked() {
	if a.busy || !needsAction(a.judge.Phase()) || a.w.d.ctx.Err() != nil || a.session.Err() != nil {
		return
	}
	a.busy = true
	a.w.d.wg.Go(func() {
		for a.step() {
		}
	})
}

// awaitRemoval looks at the clock when the member may be removed. The regular checks would be later.
func (a *silenceAccuser) awaitRemoval() {
	a.mu.Lock()
	left := a.judge.RemoveAt() - a.now()
	a.mu.Unlock()
	if wait.For(a.w.d.ctx, left) {
		a.w.checkSilence()
	}
}

// needsAction reports whether a judge in that phase waits for a request.
func needsAction(p silence.Phase) bool {
	return p == silence.Accusing || p == silence.Removing || p == silence.Withdrawing
}

// step carries out one request, and reports whether another one may follow.
func (a *silenceAccuser) step() (more bool) {
	a.mu.Lock()
	judge, session, self := a.judge, a.session, a.self
	a.mu.Unlock()
	update := judgeUpdate(silence.Judge.OnGiveUp)
	if a.w.d.ctx.Err() == nil && session.Err() == nil {
		switch judge.Phase() {
		case silence.Accusing:
			update = a.accuse(session, self, judge.Silent())
		case silence.Removing:
			update = a.remove(session, self, judge.Revision())
		case silence.Withdrawing:
			update = a.withdraw(session, self)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if update != nil {
		a.judge = update(a.judge)
	}
	switch a.judge.Phase() {
	case silence.Waiting:
		a.w.d.wg.Go(a.awaitRemoval)
	}
	if needsAction(a.judge.Phase()) && a.w.d.ctx.Err() == nil && session.Err() == nil {
		return true
	}
	a.busy = false
	a.idle.Send()
	return false
}

// wants reports whether the judge is still in that phase.
func (a *silenceAccuser) wants(p silence.Phase) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.judge.Phase() == p
}

// awaitValid reports whether the session is valid: a member that is itself cut off cannot judge others. If it is not,
// it pauses shortly. While etcd elects its leader, a session may be without a proof for a moment.
func (a *silenceAccuser) awaitValid(session *etcdsession.Session) bool {
	if session.Valid() {
		return true
	}
	wait.For(session.Context(), attemptPause.First)
	return false
}

// attempt sends a request for a phase of the judge until etcd answers, or the judge is in another phase. If it fails,
// attempt pauses, longer each time in a row. Etcd may execute the request several times, also later.
func (a *silenceAccuser) attempt(session *etcdsession.Session, p silence.Phase,
	t txn.Txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := wait.MergeContexts(a.w.d.ctx, session.Context())
	defer cancel()
	resp, err := hedge.Do(ctx, hedge.Policy{First: session.ResendAfter(leastGap, requestTimeout), Last: maxGap,
		Each: requestTimeout, Wanted: func() bool { return a.wants(p) }},
		func(ctx context.Context) (*clientv3.TxnResponse, error) { return txn.Commit(ctx, a.w.d.cfg.Client, t) })
	if err == nil {
		a.failures = 0
		return resp, nil
	}
	if !errors.Is(err, hedge.ErrUnwanted) {
		a.failures++
	}
	a.w.d.log.Debug("a request about a silent member failed, sending it again", "address", a.w.address, "error", err)
	pause := attemptPause.Delay(max(1, a.failures), backoff.NoJitter)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		if !a.refused {
			a.refused = true
			a.w.d.log.Warn("etcd refuses this node's user the accusations of silence, so it neither removes a silent member "+
				"nor acknowledges its heartbeats: grant READ and WRITE as goversed rbac prints it", "address", a.w.address,
				"error", err)
		}
		pause = refusedPause
	}
	wait.For(ctx, pause)
	return resp, err
}

// judgeUpdate is a step of the judge; nil if the outcome is unknown.
type judgeUpdate = func(silence.Judge) silence.Judge

func (a *silenceAccuser) accuse(session *etcdsession.Session, self *state.Member, silent time.Duration) judgeUpdate {
	w := a.w
	m := w.d.cfg.Mirror.Snapshot().Member(w.address)
	if m == nil || m.Incarnation != w.incarnation || suspicion.LeftToLease(m) {
		return silence.Judge.OnGiveUp
	}
	if !a.awaitValid(session) {
		return nil
	}
	resp, err := a.attempt(session, silence.Accusing,
		txn.AccuseOfSilence(w.d.cfg.Keys, m, self, int64(session.ID()), silent))
	if err != nil {
		return nil
	}
	now := a.now()
	if !resp.Succeeded {
		return a.gone(resp)
	}
	w.d.accusations.Add(1)
	w.d.silenceAccusations.Add(1)
	gracePeriod := suspicion.GracePeriod(w.d.cfg.Settings.GracePeriod, session.RoundTrip().Took, m)
	accused := resp.Responses[1].GetResponseRange().GetCount()
	holdOff := suspicion.HoldOff(int(accused), w.d.cfg.Settings.Watchers, len(w.d.cfg.Mirror.Snapshot().Members))
	w.d.log.Info("accused a member of silence: it is removed unless it answers", "address", w.address,
		"silent", silent.Round(time.Millisecond).String(), "accused", accused, "held_off", holdOff,
		event.Field, string(event.NodeAccused))
	revision := resp.Responses[2].GetResponseRange().GetKvs()[0].CreateRevision
	return func(j silence.Judge) silence.Judge { return j.OnAccused(now, revision, gracePeriod, holdOff) }
}

// gone returns the step after a request that etcd refused because a member is not registered as it was.
func (a *silenceAccuser) gone(resp *clientv3.TxnResponse) judgeUpdate {
	if a.w.isRegistered(resp.Responses[0]) {
		return silence.Judge.OnGiveUp // this process's own member is gone
	}
	a.w.d.learnRemoval(resp.Header.Revision)
	return silence.Judge.OnGone
}

func (a *silenceAccuser) withdraw(session *etcdsession.Session, self *state.Member) judgeUpdate {
	w := a.w
	accused := &state.Member{Address: w.address, Incarnation: w.incarnation}
	resp, err := a.attempt(session, silence.Withdrawing, txn.WithdrawSilenceAccusation(w.d.cfg.Keys, accused, self))
	if err != nil {
		return nil
	}
	if !w.isRegistered(resp.Responses[1]) {
		a.recordGone(resp.Header.Revision, w.marked(resp.Responses[2]))
		return silence.Judge.OnGone
	}
	return silence.Judge.OnWithdrawn
}

// recordGone is called when etcd has answered, at a revision, that the member is gone. If this process has removed it,
// perhaps by a request without an answer, recordGone finishes the removal.
func (a *silenceAccuser) recordGone(revision int64, removed bool) {
	w, m := a.w, a.removing
	w.d.learnRemoval(revision)
	if m == nil || !removed {
		return
	}
	w.d.silenceRemovals.Add(1)
	w.recordRemoval("removed a member that stands still or is cut off", "evidence", evidenceSilence)
	w.d.wg.Go(func() { w.revokeLease(m) })
}

func (a *silenceAccuser) remove(session *etcdsession.Session, self *state.Member, revision int64) judgeUpdate {
	w := a.w
	s := w.d.cfg.Mirror.Snapshot()
	m := s.Member(w.address)
	if m == nil || m.Incarnation != w.incarnation {
		return silence.Judge.OnGiveUp
	}
	if !a.awaitValid(session) {
		return nil
	}
	a.removing = m
	candidate, _ := s.CandidateOn(m.KeyLease)
	resp, err := a.attempt(session, silence.Removing, txn.RemoveSilent(w.d.cfg.Keys, m, candidate != nil, self, revision))
	if err != nil {
		return nil
	}
	node, accusation, mark := resp.Responses[0], resp.Responses[1], resp.Responses[2]
	switch {
	case resp.Succeeded || !w.isRegistered(node):
		a.recordGone(resp.Header.Revision, resp.Succeeded || w.marked(mark)) // by this request, or by a copy of it
		return silence.Judge.OnGone
	case isCreatedAt(accusation, revision):
		return silence.Judge.OnGiveUp // this process's own member is gone
	}
	now := a.now()
	a.mu.Lock()
	a.sign = now
	a.mu.Unlock()
	w.d.refuted.Add(1)
	w.d.log.Warn("a member refuted an accusation of silence: it lives, but does not answer here; check the network and "+
		"whether it has enough processor time", "address", w.address, event.Field, string(event.NodeRefuted))
	return func(j silence.Judge) silence.Judge { return j.OnRefuted(now) }
}

// isRegistered reports whether a read of the member's node key shows that it is registered still.
func (w *watchedMember) isRegistered(node *etcdserverpb.ResponseOp) bool {
	return isCreatedAt(node, w.incarnation)
}

// isCreatedAt reports whether a read of a key shows that it was created at a revision.
func isCreatedAt(key *etcdserverpb.ResponseOp, revision int64) bool {
	kvs := key.GetResponseRange().GetKvs()
	return len(kvs) == 1 && kvs[0].CreateRevision == revision
}

// marked reports whether a read of this process's mark shows that it has removed the member.
func (w *watchedMember) marked(mark *etcdserverpb.ResponseOp) bool {
	for _, kv := range mark.GetResponseRange().GetKvs() {
		record, err := state.DecodeAccusation(kv.Value)
		return err == nil && record.MarksRemoval(&state.Member{Incarnation: w.incarnation})
	}
	return false
}

// revokeLease revokes the lease of a member that was removed. It may hold more keys. If the revocation fails, it
// expires by itself.
func (w *watchedMember) revokeLease(m *state.Member) {
	if m.KeyLease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.d.ctx, requestTimeout)
	defer cancel()
	_, _ = w.d.cfg.Client.Revoke(ctx, clientv3.LeaseID(m.KeyLease))
}

// armedSince reports whether the member has armed this process, and when the member last showed that it runs: by a
// heartbeat, or by refuting an accusation.
func (a *silenceAccuser) armedSince() (armed bool, sign time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.judge.Arming() > 0, a.sign
}

// release makes the judge accuse no more, so that this process can tell the member that it does not accuse. It waits
// until no accusation is in progress, or ctx ends, and reports whether it can tell that. It cannot if a request has no
// answer: etcd may still carry it out, also after the session was lost here.
func (a *silenceAccuser) release(ctx context.Context) bool {
	for {
		a.mu.Lock()
		a.released, a.judge = true, a.judge.OnGiveUp()
		settled := !a.busy && a.judge.CanRelease()
		if settled {
			a.judge = a.judge.OnRelease()
		}
		a.actLocked()
		unknown := !settled && !a.busy
		a.mu.Unlock()
		if settled || unknown {
			return settled
		}
		select {
		case <-a.idle:
		case <-ctx.Done():
			return false
		}
	}
}

// awaitIdle waits until no request about the member is in progress, or ctx ends. Until then no other judge about the
// member may listen, nor may a goodbye be said to it.
func (a *silenceAccuser) awaitIdle(ctx context.Context) {
	for {
		a.mu.Lock()
		busy := a.busy
		a.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-a.idle:
		case <-ctx.Done():
			return
		}
	}
}
