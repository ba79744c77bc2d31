package etcdsession

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/clock"
	"github.com/goverse/goverse/internal/deadline"
	"github.com/goverse/goverse/internal/mutant"
)

// A process that stood still hears of nothing meanwhile. That is what the deadline is for, as long as
// etcd keeps to it; but a leader of etcd that was deposed may revoke leases before their time that were
// granted in an earlier raft term (see package linger). Others then take over after a grace period of
// 200 ms, in which a member that runs is notified. So each session takes note of the time again and
// again; one whose lease is from an earlier term than etcd's present one, and that finds that it stood
// still for longer than pauseLimit, is not valid until a renewal round that was sent since has found its
// keys. The session, its lease and its stretch stand meanwhile: if the keys are there, nobody else can
// have acted. Whatever the lease's term, nothing new begins on it until then: what the watch delivers
// first after a pause may be long past.
const (
	pauseLimit = 150 * time.Millisecond
	beatEvery  = 50 * time.Millisecond
	// pauseSaid is the pause between two lines of the log about pauses.
	pauseSaid = time.Minute
)

// pause is what a session knows of pauses of its process; guarded by its lock.
type pause struct {
	last   deadline.Instant  // of the last beat; zero before the first
	asleep *deadline.Instant // when a pause was noticed that is not confirmed yet
	said   time.Time         // when the log was told last
}

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
	if !s.risky.Load() || mutant.Is(mutant.PauseTrusted) {
		return true
	}
	last := s.beaten.Load()
	return last == nil || !now.Reached(last.Add(pauseLimit))
}

// beat takes note of the time. It is called every beatEvery while the session stands.
func (s *Session) beat() {
	s.mu.Lock()
	now, p := clock.Now(), &s.pause
	before := p.last
	p.last = now
	s.risky.Store(s.risks())
	var stood time.Duration
	switch {
	case before == deadline.Instant{}:
		s.beaten.Store(&now)
	case now.Reached(before.Add(pauseLimit)):
		p.asleep = &now
		s.unsure.Store(true)
		if s.endRound != nil {
			s.endRound(errDoubted) // a round that was sent before proves nothing
		}
		s.Check()
		s.tell()
		if at := time.Now(); s.risky.Load() && at.Sub(p.said) > pauseSaid {
			stood, p.said = time.Duration(now.Mono-before.Mono), at
		}
	case p.asleep == nil:
		s.beaten.Store(&now)
	}
	s.mu.Unlock()
	if stood > 0 {
		s.cfg.Logger.Info("this process stood still; it claims nothing until etcd has confirmed the session",
			"lease", leaseName(s.id), "for", stood.Round(time.Millisecond).String())
	}
}

// confirmed ends a pause if the round that has found the session's keys was sent since, and there was no
// other one. The lock is held.
func (s *Session) confirmed(began deadline.Instant) {
	now, p := clock.Now(), &s.pause
	if p.asleep == nil || began.Mono < p.asleep.Mono || now.Reached(p.last.Add(pauseLimit)) {
		return
	}
	p.asleep = nil
	s.unsure.Store(false)
	s.beaten.Store(&now)
	s.tell()
}

// Confirm blocks while the process stood still and etcd has not confirmed yet that nothing was taken from
// it, or until ctx ends, and reports whether the stretch is valid.
func (t *Stretch) Confirm(ctx context.Context) bool {
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
