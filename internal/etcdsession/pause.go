package etcdsession

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/deadline"
)

// A process that stood still hears of nothing meanwhile. That is what the deadline is for, as long as
// etcd keeps to it; but a leader of etcd that was deposed may revoke leases before their time that were
// granted in an earlier raft term (see package linger). Others then take over after a grace period of
// 200 ms, in which a member that runs is notified. So each session takes note of the time again and
// again; one whose lease is from an earlier term than etcd's present one, and that finds that it stood
// still for longer than pauseLimit, is not valid until a renewal round that was sent since has found its
// keys. The session, its lease and its period stand meanwhile: if the keys are there, nobody else can
// have acted. Whatever the lease's term, nothing new begins on it until then: what the watch delivers
// first after a pause may be long past.
const (
	pauseLimit = 150 * time.Millisecond
	beatEvery  = 50 * time.Millisecond
	// pauseLogged is the time between two lines of the log about pauses.
	pauseLogged = time.Minute
)

// pause is what a session knows of pauses of its process. It is changed with the session's lock held; who
// reads without the lock reads last first.
type pause struct {
	last    atomic.Pointer[deadline.Instant] // of the last beat; nil before the first
	unsure  atomic.Bool                      // the process stood still, which is not confirmed yet
	noticed deadline.Instant                 // when that was noticed; while unsure
	logged  time.Time                        // when a pause was logged last
}

// risks reports whether etcd may revoke the lease before its time.
func (s *Session) risks() bool {
	newest := s.newest.Load()
	if s.cfg.KnownTerm != nil {
		newest = max(newest, s.cfg.KnownTerm())
	}
	return newest > s.term
}

// awake reports whether the process did not stand still, as far as that matters to what is claimed.
func (s *Session) awake(now deadline.Instant) bool { return !s.paused(now) || !s.risks() }

// paused reports whether the process stood still, and etcd has not confirmed the session since.
func (s *Session) paused(now deadline.Instant) bool {
	last := s.pause.last.Load()
	return last != nil && (now.Reached(last.Add(pauseLimit)) || s.pause.unsure.Load())
}

// beat takes note of the time. It is called every beatEvery while the session stands.
func (s *Session) beat() {
	s.mu.Lock()
	now, p := s.cfg.Clock(), &s.pause
	var stood time.Duration
	if last := p.last.Load(); last != nil && now.Reached(last.Add(pauseLimit)) {
		stood = time.Duration(now.Mono - last.Mono)
		p.noticed = now
		p.unsure.Store(true) // before the time is stored: see awake
		if s.endRound != nil {
			s.endRound(errSuspected) // a round that was sent before proves nothing
		}
		s.Check()
		s.notify()
	}
	p.last.Store(&now)
	log := stood > 0 && s.risks() && time.Since(p.logged) > pauseLogged
	if log {
		p.logged = time.Now()
	}
	s.mu.Unlock()
	if log {
		s.cfg.Logger.Info("this process stood still; it claims nothing until etcd has confirmed the session",
			"lease", leaseName(s.id), "for", stood.Round(time.Millisecond).String())
	}
}

// confirmed ends a pause if the round that has found the session's keys was sent since, and there was no
// other one. The lock is held.
func (s *Session) confirmed(began deadline.Instant) {
	p := &s.pause
	if !p.unsure.Load() || began.Mono < p.noticed.Mono || s.cfg.Clock().Reached(p.last.Load().Add(pauseLimit)) {
		return
	}
	p.unsure.Store(false)
	s.notify()
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
