package etcdsession

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// A process that stood still hears of nothing meanwhile. That is what the deadline is for, as long as
// etcd keeps to it; but a leader of etcd that was deposed may revoke leases before their time that were
// granted in an earlier raft term (see package lingering). Others then take over after a grace period of
// 200 ms, in which a member that runs is notified. So each session takes note of the time again and
// again; one whose lease is from an earlier term than etcd's present one, and that finds that it stood
// still for longer than deadline.PauseLimit, is not valid until a renewal round that was sent since, and over
// which the process ran, has found its keys. The session, its lease and its period stand meanwhile: if the keys
// are there, nobody else can have acted. Whatever the lease's term, nothing new begins on it until a round that
// was sent since has found them: what the watch delivers first after a pause may be long past.
//
// A process with too little processor time may have no round without a pause in it. A lease of etcd's present term
// needs none: see deadline.Pauses. One of an earlier term is given up, once it has cost a fifth of its TTL since it
// is one: another can lead then, and the next lease is of the present term.
const (
	beatEvery = 50 * time.Millisecond
	// pauseLogged is the time between two lines of the log about pauses.
	pauseLogged = time.Minute
)

// errStarved says why a session was given up that could not be confirmed.
var errStarved = errors.New("this process stands still again and again, for more than " +
	deadline.PauseLimit.String() + " each time, and etcd has elected another leader since it granted the lease: no " +
	"answer of etcd's arrives in time to confirm the session, and nobody else can lead while it stands; give the " +
	"process more processor time")

// risks reports whether etcd may revoke the lease before its time.
func (s *Session) risks() bool {
	newest := s.newest.Load()
	if s.cfg.KnownTerm != nil {
		newest = max(newest, s.cfg.KnownTerm())
	}
	return newest > s.term
}

// awake reports whether the process did not stand still, as far as that matters to what is claimed.
func (s *Session) awake(now deadline.Instant) bool { return !s.pauses.Load().Stood(now) || !s.risks() }

// mayBegin reports whether no pause keeps anything new from being begun.
func (s *Session) mayBegin(now deadline.Instant) bool {
	p := s.pauses.Load()
	return !p.Stood(now) || p.MayBegin(now) && !s.risks()
}

// beat takes note of the time. It is called every beatEvery while the session stands. It reports whether the
// session should be given up.
func (s *Session) beat() (starved bool) {
	s.mu.Lock()
	now := s.cfg.Clock()
	p, stood := s.pauses.Load().Beat(now)
	log, risks := false, s.risks()
	if !risks {
		p = p.Forgiven()
	}
	s.pauses.Store(&p)
	if stood > 0 {
		if s.endRound != nil && (risks || !p.Proves(s.roundSent)) {
			s.endRound(errSuspected)
		}
		s.Check()
		s.notify()
		log = risks && time.Since(s.pauseLogged) > pauseLogged
	}
	if log {
		s.pauseLogged = time.Now()
	}
	s.mu.Unlock()
	if log {
		s.cfg.Logger.Info("this process stood still; it claims nothing until etcd has confirmed the session",
			"lease", leaseName(s.id), "for", stood.Round(time.Millisecond).String())
	}
	return risks && p.Starved(s.ttl)
}

// confirmed notes a round that was sent then and has found the session's keys. The lock is held.
func (s *Session) confirmed(sent, answered deadline.Instant) {
	before := s.pauses.Load()
	if p := before.Confirmed(sent, answered); p != *before {
		s.pauses.Store(&p)
		s.notify()
	}
}

// Confirm blocks while the process stood still and etcd has not confirmed yet that nothing was taken from
// it, or until ctx ends, and reports whether the period is valid.
func (t *Period) Confirm(ctx context.Context) bool {
	changed := make(chan struct{}, 1)
	defer t.s.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	for t.Stands() && !t.Valid() {
		select {
		case <-changed:
		case <-t.ctx.Done():
		case <-ctx.Done():
			return t.Valid()
		}
	}
	return t.Valid()
}
