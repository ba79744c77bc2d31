package etcdsession

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/wait"
)

// A process that stands still learns of nothing meanwhile. The deadline covers that as long as etcd respects
// it. But a deposed leader of etcd may revoke leases early that were granted in an earlier raft term (see
// package lingering). Other nodes then take over after a grace period of 200 ms, in which a running member is
// notified. So each session reads the clock regularly. A session is not valid if its lease is from an earlier
// raft term than etcd's present one and its process stood still for longer than deadline.PauseLimit. It becomes
// valid again when a renewal round that was sent since, and during which the process ran, has found its keys.
// The session, its lease and its period stand meanwhile: if the keys are there, no other node can have acted.
//
// Whatever the lease's term, nothing new begins on it after a pause until such a round has found the keys,
// because the first events that a watch delivers then may be long out of date.
//
// A process with too little processor time may have no round without a pause in it. A lease of etcd's present
// term does not need one: see deadline.Pauses. A lease of an earlier term is given up once pauses have cost a
// fifth of its TTL. Another node can lead then, and the next lease is of the present term.
const (
	beatEvery = 50 * time.Millisecond
	// pauseLogged is the minimum time between two log lines about pauses.
	pauseLogged = time.Minute
)

// errStarved is the reason for giving up a session that could not be confirmed.
var errStarved = errors.New("this process stands still again and again, for more than " +
	deadline.PauseLimit.String() + " each time, and etcd has elected another leader since it granted the lease: no " +
	"answer of etcd's arrives in time to confirm the session, and no other node can lead while it stands; give the " +
	"process more processor time")

// leaseAtRisk reports whether etcd may revoke the lease before its time.
func (s *Session) leaseAtRisk() bool {
	return max(s.newestTerm.Load(), s.cfg.View.KnownTerm()) > s.raftTerm
}

// pausesHarmless reports whether no pause makes the existing claims invalid.
func (s *Session) pausesHarmless(now deadline.Instant) bool {
	return !s.pauses.Load().Stood(now) || !s.leaseAtRisk()
}

// mayBeginWork reports whether no pause prevents new work.
func (s *Session) mayBeginWork(now deadline.Instant) bool {
	p := s.pauses.Load()
	return !p.Stood(now) || p.MayBeginWork(now) && !s.leaseAtRisk()
}

// recordBeat records the time. deadlineLoop calls it at least every beatEvery while the session stands. It reports
// whether the session should be given up.
func (s *Session) recordBeat() (starved bool) {
	s.mu.Lock()
	now := s.cfg.Clock()
	p, stood := s.pauses.Load().OnBeat(now)
	log, risks := false, s.leaseAtRisk()
	if !risks {
		p = p.WithoutWasted()
	}
	s.pauses.Store(&p)
	if stood > 0 {
		if s.endRound != nil && (risks || !p.RoundStillPermits(s.roundSent)) {
			s.endRound(errSuspected)
		}
		s.RequestRenewal()
		s.requestProof()
		s.notifyListeners()
		log = risks && time.Since(s.pauseLogged) > pauseLogged
	}
	if log {
		s.pauseLogged = time.Now()
	}
	s.mu.Unlock()
	if log {
		s.cfg.Logger.Info("this process was paused: suspended until etcd confirms the session",
			"lease", leaseName(s.id), "for", stood.Round(time.Millisecond).String())
	}
	return risks && p.Starved(s.ttl)
}

// recordConfirmation records a round, sent and answered at these instants, that has found the session's keys. The lock
// is held.
func (s *Session) recordConfirmation(sent, answered deadline.Instant) {
	before := s.pauses.Load()
	if p := before.OnRound(sent, answered); p != *before {
		s.pauses.Store(&p)
		s.notifyListeners()
	}
}

// AwaitConfirmed blocks while a pause of the process is not confirmed to be harmless, or until ctx or the period ends.
// It reports whether the period is valid.
func (t *Period) AwaitConfirmed(ctx context.Context) bool {
	changed := wait.NewSignal()
	defer t.s.OnChange(changed.Send)()
	for t.ValidDespitePause() && !t.Valid() {
		select {
		case <-changed:
		case <-t.ctx.Done():
		case <-ctx.Done():
			return t.Valid()
		}
	}
	return t.Valid()
}
