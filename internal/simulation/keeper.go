package simulation

import (
	"errors"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/deadline"
)

// keeper stands for etcdsession.Keeper.Run: one session after the other.
type keeper struct {
	p       *process
	session *session // the newest, nil before the first
	current bool     // it is registered: Keeper.Current is not nil
	fails   int      // to open a session, in a row
	closing bool     // Run's context has ended
	closed  func()   // what to do when the last lease was seen off
}

// session stands for etcdsession.Session.
type session struct {
	p         *process
	lease     int64
	term      uint64 // of raft, in which that was granted
	key       string // of the candidate on it
	claim     deadline.Claim
	lost      string // why; "": it stands
	suspended bool   // its present period has ended
	protected []protection
	known     int64 // newest revision seen by its own reads

	lastRound time.Duration // how long the last one took that succeeded

	round    int // counts; an answer to an earlier round counts for nothing
	inRound  bool
	check    bool
	failed   bool
	deadline int // counts timers
	timer    int

	// What the checks know of it.
	confirmed   time.Duration // when the newest round began that etcd answered
	shownAt     []shown
	lostWatches []lostWatch
}

// protection is etcdsession.Protection.
type protection struct {
	key      string
	revision int64
	lost     func() // nil: the session
}

const (
	openTimeout      = 2 * time.Second
	closeTimeout     = time.Second
	suspendedTimeout = 5 * time.Second
	slowdown         = 5
)

// open grants a lease.
func (k *keeper) open() {
	p := k.p
	if k.closing {
		k.closed()
		return
	}
	sent := p.host.clock()
	grant := func(e *etcd) (answer, error) { return e.grant(), nil }
	p.call(toGrant, max(openTimeout, p.w.ttl/5), grant, func(a answer, err error) {
		if err != nil || k.closing {
			k.again()
			return
		}
		s := &session{p: p, lease: a.lease, term: a.term, key: p.w.keys.Candidate(a.lease),
			claim: deadline.Granted(sent, p.w.ttl)}
		k.session = s
		if p.w.log != nil {
			p.w.log.of(p, "has a session on lease %x", s.lease)
		}
		s.renewAfter(p.w.ttl/3 - time.Duration(p.host.mono()-sent.Mono))
		s.watchDeadline()
		p.member.register(s)
	})
}

// again opens another session after a pause.
func (k *keeper) again() {
	k.fails++
	k.p.after(deadline.OpenRetry.Delay(k.fails, backoff.NoJitter), k.open)
}

// registered: others may see the session now.
func (k *keeper) registered(s *session) {
	k.fails = 0
	k.current = true
	k.p.election.serve(s)
	k.p.holder.serve(s)
	k.p.detector.poke()
}

// over is what Run does when a session was lost or its context ended.
func (k *keeper) over(s *session) {
	k.current = false
	if s.lost == "revoked" {
		k.next()
		return
	}
	k.revoke(s, 0)
}

// revoke tries until etcd answered; while stopping for closeTimeout.
func (k *keeper) revoke(s *session, stopBy int64) {
	p := k.p
	p.call(toRevoke, min(p.w.ttl/5, closeTimeout), func(e *etcd) (answer, error) { return e.revoke(p.host, s.lease) },
		func(_ answer, err error) {
			if k.closing && stopBy == 0 {
				stopBy = p.host.mono() + int64(closeTimeout)
			}
			switch {
			case err == nil || errors.Is(err, errNoLease) || errors.Is(err, errDenied), stopBy != 0 && p.host.mono() > stopBy:
				k.next()
			default:
				p.after(deadline.RevokeRetry.Delay(1, backoff.NoJitter), func() { k.revoke(s, stopBy) })
			}
		})
}

func (k *keeper) next() {
	if k.closing {
		k.closed()
		return
	}
	k.open()
}

// close ends the last session, and says when that is done.
func (k *keeper) close(done func()) {
	k.closing, k.closed = true, done
	if s := k.session; s != nil && s.lost == "" {
		s.lose("closed")
	}
}

// valid is Session.Valid of the current one.
func (k *keeper) valid() bool { return k.session != nil && k.session.valid() }

func (s *session) valid() bool { return s.lost == "" && s.claim.Valid(s.p.host.clock()) }

// validSince is Period.Valid.
func (s *session) validSince(period int) bool { return s.valid() && s.claim.Period() == period }

// lose is Session.Lose.
func (s *session) lose(why string) {
	if s.lost != "" {
		return
	}
	s.p.member.revokedEarly = why == "revoked" && s.claim.Valid(s.p.host.clock())
	s.lost = why
	for h, reason := range losses {
		if reason == why {
			s.p.w.checks.count(Occurrence(h))
		}
	}
	if s.p.w.log != nil {
		s.p.w.log.of(s.p, "has lost its session: %s", why)
	}
	s.p.soon(func() { s.p.election.close(s, election.ReasonSessionLost) })
	s.p.soon(func() { s.p.holder.lost(s) })
	s.p.soon(func() { s.p.keeper.over(s) })
}

var losses = [occurrences]string{SessionExpired: "expired", SessionRevoked: "revoked", SessionPermission: "permission",
	SessionKeyLost: "key lost"}

// protect is Session.Protect.
func (s *session) protect(key string, revision int64, lost func()) {
	s.protected = append(slices.Clip(s.protected), protection{key, revision, lost})
}

// release is Protection.Release.
func (s *session) release(key string, revision int64) {
	s.protected = slices.DeleteFunc(slices.Clone(s.protected), func(p protection) bool {
		return p.key == key && p.revision == revision
	})
}

// renewAfter is the timer of renewLoop.
func (s *session) renewAfter(d time.Duration) {
	s.timer++
	mine := s.timer
	s.p.after(d, func() {
		if s.timer == mine && !s.inRound {
			s.renew()
		}
	})
}

// checkNow is Session.Check.
func (s *session) checkNow() {
	if s.lost != "" {
		return
	}
	s.check = true
	s.p.soon(func() {
		if s.check && !s.inRound {
			s.renew()
		}
	})
}

// suspect is Session.Suspect.
func (s *session) suspect(within time.Duration) {
	if s.lost != "" {
		return
	}
	within = max(within, slowdown*s.lastRound)
	again := s.claim.Suspected()
	s.claim = s.claim.Suspect(s.p.host.clock(), within)
	s.p.w.checks.suspected(s, within)
	if s.inRound && !again && !s.p.w.chance(4) {
		s.round++ // the round under way is cut short, unless its answer is there already
		s.inRound = false
	}
	s.watchDeadline()
	s.checkNow()
}

// renew is one round: a renewal, and a read of the protected keys.
func (s *session) renew() {
	if s.lost != "" {
		return
	}
	s.round++
	s.check, s.inRound = false, true
	mine := s.round
	p := s.p
	sent := p.host.clock()
	started := p.w.now
	timeout := p.w.ttl / 5
	if s.claim.Suspected() {
		timeout = min(timeout, suspendedTimeout)
	}
	if s.claim.Suspected() && s.valid() {
		timeout = min(timeout, max(sent.Until(s.claim.Until())/2, deadline.SuspectedRetry))
	}
	protected := s.protected
	known := max(s.known, p.mirror.known)
	end := func(err error) {
		s.inRound = false
		switch {
		case s.lost != "":
		case s.check:
			s.failed = err != nil
			s.renew()
		case err == nil:
			s.failed = false
			s.renewAfter(p.w.ttl/3 - time.Duration(p.host.mono()-sent.Mono))
		default:
			s.failed = true
			retry := p.w.ttl / 30
			if s.claim.Suspected() {
				retry = min(retry, deadline.SuspendedRetry)
			}
			if s.claim.Suspected() && s.valid() {
				retry = min(retry, deadline.SuspectedRetry)
			}
			s.renewAfter(retry)
		}
	}
	p.call(toRenew, timeout, func(e *etcd) (answer, error) { return e.renew(p.host, s.lease) }, func(_ answer, err error) {
		switch {
		case s.round != mine || s.lost != "":
			return
		case errors.Is(err, errNoLease):
			s.lose("revoked")
			return
		case errors.Is(err, errDenied):
			s.lose("permission")
			return
		case err != nil:
			end(err)
			return
		}
		asked := p.host.mono()
		read := func(e *etcd) (answer, error) { return e.shown(protected), nil }
		answered := func(a answer, err error) {
			if s.round != mine || s.lost != "" {
				return
			}
			if err == nil {
				err = s.confirm(sent, asked, started, protected, a, known)
			}
			end(err)
		}
		left := timeout - time.Duration(p.host.mono()-sent.Mono)
		p.call(toCheck, max(left, 0), read, func(a answer, err error) {
			if err != nil && s.round == mine && s.lost == "" {
				asked = p.host.mono()
				p.call(toCheck, timeout, read, answered) // by the next endpoint
				return
			}
			answered(a, err)
		})
	})
}

// shown reads keys as Session.read does: each one's CreateRevision, as it would be
// found.
func (e *etcd) shown(keys []protection) answer {
	a := answer{revision: e.revision}
	for _, p := range keys {
		if kv := e.get(p.key); kv != nil {
			a.found = append(a.found, *kv)
		}
	}
	return a
}

var errKeyLost = errors.New("a key is gone")

// confirm is the rest of a round that etcd answered in full.
func (s *session) confirm(sent deadline.Instant, asked int64, started time.Duration, protected []protection,
	a answer, known int64) error {
	p := s.p
	if a.revision < known {
		p.w.checks.fail("other-history", "%s takes etcd's history for another one: read %d, knew %d", p.id, a.revision, known)
	}
	s.known = a.revision
	for _, x := range protected {
		found := int64(0)
		for _, kv := range a.found {
			if kv.Key == x.key {
				found = kv.CreateRevision
			}
		}
		switch {
		case deadline.Shown(x.revision, found):
		case x.lost == nil:
			s.lose("key lost")
			return errKeyLost
		case slices.ContainsFunc(s.protected, func(y protection) bool { return y.key == x.key && y.revision == x.revision }):
			x.lost()
		}
	}
	p.mirror.saw(a.revision, known)
	answered := p.host.clock()
	s.lastRound = time.Duration(answered.Mono - sent.Mono)
	p.member.measured(time.Duration(answered.Mono - asked))
	before := s.claim
	s.claim = s.claim.Renewed(sent, answered)
	p.w.checks.confirmed(s, started, protected)
	if s.claim.Period() != before.Period() {
		s.suspended = false
		p.w.checks.count(Resumed)
		p.election.poke()
		p.holder.poke()
	}
	if before.Suspected() && !s.claim.Suspected() {
		p.election.poke()
		p.holder.poke()
	}
	return nil
}

// watchDeadline is deadlineLoop: it turns the passing of the deadline into the loss
// of the session, and of a suspicion's into its suspension.
func (s *session) watchDeadline() {
	s.deadline++
	mine := s.deadline
	s.p.after(max(s.look(), 0), func() {
		if s.deadline != mine || s.lost != "" {
			return
		}
		if s.claim.Ended(s.p.host.clock()) {
			s.lose("expired")
			return
		}
		s.watchDeadline()
	})
}

// look is Session.look.
func (s *session) look() time.Duration {
	now := s.p.host.clock()
	if s.claim.Valid(now) {
		return now.Until(s.claim.Until())
	}
	if !s.claim.Ended(now) && !s.suspended {
		s.suspended = true
		s.p.w.checks.count(Suspended)
		s.p.soon(s.p.election.poke)
		s.p.soon(s.p.holder.poke)
	}
	return now.Until(s.claim.Ends())
}

// wallStepped: deadlineLoop looks at the wall clock every tenth of the TTL.
func (s *session) wallStepped() {
	s.p.after(s.p.w.between(0, s.p.w.ttl/10), s.watchDeadline)
}
