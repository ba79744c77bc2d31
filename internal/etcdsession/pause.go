package etcdsession

import (
	"time"

	"github.com/goverse/goverse/internal/clock"
	"github.com/goverse/goverse/internal/deadline"
	"github.com/goverse/goverse/internal/mutant"
)

// A process that stood still hears of nothing meanwhile. That is what the deadline is for, as long as
// etcd keeps to it; but a leader of etcd that was deposed may revoke leases before their time that were
// granted in an earlier raft term (see package linger). Others then take over after a grace period of
// 200 ms, in which a member that runs is notified. So a session whose lease is from an earlier term than
// etcd's present one is beaten like a heart, and one that finds that it stood still for longer than
// pauseLimit is not valid until a renewal round that was sent since has found its keys. The session, its
// lease and its stretch stand meanwhile: if the keys are there nobody else can have acted.
const (
	pauseLimit = 150 * time.Millisecond
	beatEvery  = 25 * time.Millisecond
)

// risks reports whether etcd may revoke the lease before its time.
func (s *Session) risks() bool {
	newest := s.newest.Load()
	if s.cfg.KnownTerm != nil {
		newest = max(newest, s.cfg.KnownTerm())
	}
	return newest > s.term
}

// awake reports whether the process did not stand still, as far as that matters.
func (s *Session) awake(now deadline.Instant) bool {
	last := s.beaten.Load()
	return last == nil || !now.Reached(last.Add(pauseLimit)) || mutant.Is(mutant.PauseTrusted)
}

// beat is called again and again while the session stands. It reports when to call it again, 0 if that
// makes no difference.
func (s *Session) beat() (again time.Duration) {
	if !s.risks() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	switch {
	case s.beaten.Load() == nil || s.awake(now):
		s.beaten.Store(&now)
	case s.asleep == nil:
		s.asleep = &now
		s.cfg.Logger.Info("this process stood still; it claims nothing until etcd has confirmed the session",
			"lease", leaseName(s.id), "for", time.Duration(now.Mono-s.beaten.Load().Mono).Round(time.Millisecond).String())
		if s.endRound != nil {
			s.endRound(errDoubted) // a round that was sent before proves nothing
		}
		s.Check()
	}
	return beatEvery
}

// confirmed ends a pause if the round that has found the session's keys was sent since. The lock is held.
func (s *Session) confirmed(began deadline.Instant) {
	if s.asleep == nil || began.Mono < s.asleep.Mono {
		return
	}
	now := clock.Now()
	s.asleep = nil
	s.beaten.Store(&now)
	s.tell()
}
