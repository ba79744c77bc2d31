package etcdsession

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/renewal"
	"github.com/goverse/goverse/internal/wait"
)

// ErrBadTTL is wrapped by the errors of [Config.Validate] about the TTL.
var ErrBadTTL = errors.New("bad session TTL")

// View is a mirror of etcd, as a session uses it. Its methods must not block.
type View interface {
	// KnownRevision returns the newest etcd revision known to this process. It is called before each linearizable
	// read. An answer at a smaller revision means that etcd has another history.
	KnownRevision() int64
	// KnownTerm returns the newest raft term of etcd that this process knows.
	KnownTerm() uint64
	// ObserveHeader receives the header of each renewal's read, and the known revision from before the read.
	ObserveHeader(header *etcdserverpb.ResponseHeader, known int64)
	// Proxied reports whether etcd is reached through a proxy that answers renewals itself, such as etcd
	// grpc-proxy. Its answers may belong to earlier renewals, so the session asks etcd how long the lease lasts.
	// etcd reports that in whole seconds, which costs up to a second.
	Proxied() bool
}

// noView is the view of a session without a mirror.
type noView struct{}

func (noView) KnownRevision() int64                              { return 0 }
func (noView) KnownTerm() uint64                                 { return 0 }
func (noView) ObserveHeader(*etcdserverpb.ResponseHeader, int64) {}
func (noView) Proxied() bool                                     { return false }

// Config configures a Session.
type Config struct {
	etcd.Process
	// TTL is the lease's time to live: whole seconds, at least one. Default 10 s. etcd may grant more (its
	// minimum is 2 s at its default timing); the granted value counts.
	TTL time.Duration
	// ReadKey is the key that a renewal reads while no key is protected. It may be any key that the user may
	// read, and need not exist. Default: Keys.Request.
	ReadKey string
	// View is the mirror of this process. Default: it has none.
	View View
	// Renewals, if set, counts the rounds of this session. Sessions may share it.
	Renewals *Renewals
	// Accusations describes the keys by which others accuse the holder. The zero value stands for none.
	Accusations Accusations
}

// Validate returns an error that describes the first invalid setting, or nil.
func (c Config) Validate() error {
	if c.Client == nil {
		return errors.New("session: Config.Client is nil; give it an etcd client")
	}
	if c.TTL < 0 || c.TTL%time.Second != 0 {
		return fmt.Errorf("%w %v: it must be a whole number of seconds, at least 1s", ErrBadTTL, c.TTL)
	}
	if c.TTL/time.Second > math.MaxInt32 {
		return fmt.Errorf("%w %v: it is too long", ErrBadTTL, c.TTL)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Process = c.Process.WithDefaults()
	c.TTL = cmp.Or(c.TTL, 10*time.Second)
	c.ReadKey = cmp.Or(c.ReadKey, c.Keys.Request())
	if c.View == nil {
		c.View = noView{}
	}
	return c
}

// Session is one lease, renewed by its own goroutines until it is lost or closed. All methods are safe for
// concurrent use.
type Session struct {
	cfg      Config
	id       clientv3.LeaseID
	ttl      time.Duration // the granted one
	raftTerm uint64        // raft term in which the lease was granted

	renewals    *renewal.Renewer
	endRenewals func()                         // may be called more than once
	claim       atomic.Pointer[deadline.Claim] // changed with mu held
	period      atomic.Pointer[Period]         // changed with mu held
	ended       atomic.Bool
	revoked     atomic.Bool                     // Close has revoked the lease
	missedEarly atomic.Bool                     // a key or the lease was missing before the lease had run out
	goneEarly   atomic.Bool                     // see RevokedEarly
	newestTerm  atomic.Uint64                   // newest raft term that this session has seen
	pauses      atomic.Pointer[deadline.Pauses] // changed with mu held
	proofs      atomic.Pointer[deadline.Proofs] // changed with mu held
	// proofRequested is set if a read is due although no acknowledgement is missing.
	proofRequested atomic.Bool

	ctx          context.Context
	cancel       context.CancelCauseFunc
	wakeRenewal  wait.Signal
	wakeDeadline wait.Signal // the deadline moved closer
	wakeProof    wait.Signal // a proof may be needed
	wg           sync.WaitGroup

	mu                   sync.Mutex
	lost                 *session.LostError
	lastRound            time.Duration // duration of the last round that succeeded
	lastTrip             RoundTrip
	endRound             context.CancelCauseFunc // cancels the latest renewal; nil before the first
	roundSent            deadline.Instant        // when that round began
	protected            []*Protection
	clusterID            uint64
	revision             int64 // newest revision seen by this session's own reads
	lastErr              error // of the last round, nil if it succeeded
	predecessorUnrenewed bool  // the session before this one was lost before a renewal of its lease was answered
	renewalAnswered      bool  // a renewal of this lease was answered
	listeners            []*listener
	lapseSuspended       bool // the period has ended because the proofs have lapsed; they still are
	roundNeeded          bool // the claim is suspected for another reason, too, which a read alone does not clear

	pauseLogged time.Time                         // when a pause was last logged
	unlogged    atomic.Pointer[session.LostError] // a suspension that deadlineLoop is to log
}

// Open grants a lease and starts to renew it. It blocks until etcd answers or ctx ends. The session outlives
// ctx; end it with [Session.Close].
func Open(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	sent := cfg.Clock()
	grant, err := cfg.Client.Grant(clientv3.WithRequireLeader(ctx), int64(cfg.TTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("grant a lease of %v: %w", cfg.TTL, err)
	}
	s := &Session{cfg: cfg, id: grant.ID, ttl: time.Duration(grant.TTL) * time.Second, raftTerm: grant.GetRaftTerm(),
		wakeRenewal: wait.NewSignal(), wakeDeadline: wait.NewSignal(), wakeProof: wait.NewSignal(),
		clusterID: grant.ClusterId}
	renewals, release := renewal.Acquire(cfg.Client)
	s.renewals, s.endRenewals = renewals, sync.OnceFunc(release)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.pauses.Store(&deadline.Pauses{})
	s.proofs.Store(&deadline.Proofs{})
	s.setClaim(deadline.NewClaim(sent, s.ttl))
	s.wg.Go(s.renewLoop)
	s.wg.Go(s.deadlineLoop)
	return s, nil
}

// ID returns the lease's id.
func (s *Session) ID() clientv3.LeaseID { return s.id }

// TTL returns the time to live that etcd granted.
func (s *Session) TTL() time.Duration { return s.ttl }

// RaftTerm returns etcd's raft term in which the lease was granted.
func (s *Session) RaftTerm() uint64 { return s.raftTerm }

// Valid reports whether the session may be relied on at this instant. It reads atomics and the clock: no lock,
// no allocation, no network. It can become true again after a suspension (see [Period]) and after a pause of
// the process.
func (s *Session) Valid() bool {
	now := s.cfg.Clock()
	return !s.ended.Load() && s.claim.Load().Valid(now) && s.pausesHarmless(now) && s.proofs.Load().Valid(now)
}

// Deadline returns the instant at which Valid becomes false unless the session is renewed.
// With armed watchers it becomes false sooner if there is no proof: see [Session.TimeLeft].
func (s *Session) Deadline() time.Time { return time.Unix(0, s.claim.Load().ValidUntil().Wall) }

// LeaseEnded reports whether the lease, as last renewed, has run out on either clock, regardless of whether the
// session was lost or suspended before.
func (s *Session) LeaseEnded() bool { return s.claim.Load().Ended(s.cfg.Clock()) }

// TimeLeft returns how long Valid stays true unless the session is renewed, on the clock that has less time left. It
// is meant for passing the deadline to another process, which has clocks of its own. Armed watchers shorten it to the
// time for which the present proofs hold. If Valid is no longer true, TimeLeft is zero or negative.
func (s *Session) TimeLeft() time.Duration {
	if s.ended.Load() {
		return 0
	}
	now := s.cfg.Clock()
	return s.proofs.Load().Left(now, now.Until(s.claim.Load().ValidUntil()))
}

// RenewedAt returns the time at which the renewal that counts was sent.
func (s *Session) RenewedAt() time.Time { return time.Unix(0, s.claim.Load().RenewedAt().Wall) }

// Context returns a context that ends when the session is lost or closed, with a [session.LostError] as its
// cause.
func (s *Session) Context() context.Context { return s.ctx }

// Done returns a channel that is closed when the session is lost or closed.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Err returns nil while the session stands, and a [session.LostError] afterwards.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		return nil
	}
	return s.lost
}

// EndLocally ends the session without asking etcd. Valid is false when EndLocally returns. Only the first call has an
// effect.
func (s *Session) EndLocally(reason session.Reason, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return
	}
	s.ended.Store(true)
	missed := reason == session.ReasonKeyLost || reason == session.ReasonRevoked
	s.missedEarly.Store(missed && !s.LeaseEnded())
	s.lost = &session.LostError{Reason: reason, Err: err}
	s.cancel(s.lost)
}

// Close ends the session and revokes its lease, which deletes its keys at once. It blocks until etcd has
// confirmed that or ctx ends; in the latter case the lease expires by itself. Close may be called more than
// once.
func (s *Session) Close(ctx context.Context) error {
	s.EndLocally(session.ReasonClosed, nil)
	s.wg.Wait()
	s.endRenewals()
	switch _, err := s.cfg.Client.Revoke(clientv3.WithRequireLeader(ctx), s.id); {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.recordLeaseGone()
	case err != nil:
		return fmt.Errorf("revoke lease %x: %w", int64(s.id), err)
	}
	s.revoked.Store(true)
	return nil
}

// recordLeaseGone records that etcd has answered that the lease does not exist.
func (s *Session) recordLeaseGone() {
	if !s.revoked.Load() && (s.missedEarly.Load() || !s.LeaseEnded()) {
		s.goneEarly.Store(true)
	}
}

// RevokedEarly reports whether etcd has answered that the lease is gone although, as last renewed, it had not run out.
// If the session is lost for another reason first, such as a missing key, RevokedEarly knows it once Close has
// returned. It may also report true if the answer to an earlier request of Close was lost.
func (s *Session) RevokedEarly() bool { return s.goneEarly.Load() }

// Suspected reports whether new claims on the session must wait: there is a sign that others may consider this
// process gone, which etcd has not cleared yet (see [Session.Suspect]), a proof is missing, or a pause prevents new
// work. Existing claims continue for a while.
func (s *Session) Suspected() bool {
	now := s.cfg.Clock()
	return s.claim.Load().Suspected() || !s.mayBeginWork(now) || !s.proofs.Load().Valid(now)
}

// RequestRenewal requests a renewal round now, because of a sign that the session may be gone. It does not block.
func (s *Session) RequestRenewal() {
	s.wakeRenewal.Send()
}

// Suspect reports a sign that others may consider this process gone. It requests a renewal round at once. The
// session is suspended after within, or after five times the duration of its last round if that is longer,
// unless a round sent from now on succeeds first. The sign may have existed for the duration late already, which
// is deducted. A suspended session is not valid, so nothing is claimed on it, but it keeps its lease and its
// keys. It becomes valid again, in another [Period], as soon as a round succeeds. Suspect does not block.
func (s *Session) Suspect(late, within time.Duration) {
	s.mu.Lock()
	before := s.claim.Load()
	s.setClaim(before.Suspect(s.cfg.Clock(), max(within, Slowdown*s.lastRound)-late))
	s.roundNeeded = true
	if s.endRound != nil && !before.Suspected() {
		// The round in progress may take long and would prove nothing. A round sent since an earlier suspicion
		// continues, because it clears that one.
		s.endRound(errSuspected)
	}
	s.mu.Unlock()
	s.wakeDeadline.Send()
	s.RequestRenewal()
}

// deadlineLoop ends the session at its deadline, and suspends it when a suspicion's time has passed. It does no
// I/O, so nothing can delay it.
func (s *Session) deadlineLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wakeDeadline:
		case <-s.ctx.Done():
			return
		}
		left := s.endIfOver()
		if suspended := s.unlogged.Swap(nil); suspended != nil {
			s.cfg.Logger.Warn("suspended: other nodes suspect this one, and etcd did not confirm in time that it is still "+
				"a member", "lease", leaseName(s.id), "error", suspended.Err)
		}
		if left <= 0 {
			return
		}
		// The loop runs more often than the deadline requires, because timers run on the monotonic clock: the
		// wall clock may jump, and the machine may be suspended.
		if s.recordBeat() {
			s.EndLocally(session.ReasonStarved, errStarved)
			return
		}
		timer.Reset(min(left, s.ttl/10, beatEvery))
	}
}

// endIfOver ends the session if its deadline has passed, and suspends it if a suspicion's time has. It returns the time
// until the session needs attention; if that is zero or negative, the session has ended. It logs nothing, because its
// caller may hold locks.
func (s *Session) endIfOver() (left time.Duration) {
	left, suspended := s.checkDeadline()
	if suspended != nil {
		s.unlogged.Store(suspended)
	}
	if left <= 0 {
		s.EndLocally(s.expiryReason(-left))
	}
	return left
}

// checkDeadline suspends the session if a suspicion's time has passed, and returns the reason. left is the time until
// the session needs attention; if it is zero or negative, the session has ended.
func (s *Session) checkDeadline() (left time.Duration, suspended *session.LostError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock()
	s.checkProofs(now)
	claim := s.claim.Load()
	if claim.Valid(now) {
		left := now.Until(claim.ValidUntil())
		if p := s.proofs.Load(); !p.Lapsed() {
			left = p.Left(now, left) // the period ends then
		}
		return left, nil
	}
	if !claim.Ended(now) {
		suspended = s.suspendPeriod()
	}
	return now.Until(claim.EndsAt()), suspended
}

// setPredecessorUnrenewed records whether the session before this one was lost before a renewal of its lease was
// answered.
func (s *Session) setPredecessorUnrenewed(unrenewed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.predecessorUnrenewed = unrenewed
}

// wasUnrenewed reports whether the session was lost because etcd did not answer, without having answered any
// renewal.
func (s *Session) wasUnrenewed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil && s.lost.Reason == session.ReasonUnreachable && !s.renewalAnswered
}

func (s *Session) expiryReason(late time.Duration) (session.Reason, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case late > s.ttl/10:
		return session.ReasonPaused, s.lastErr
	case isUserRefused(s.lastErr):
		return session.ReasonPermission, s.lastErr
	case s.lastErr != nil && s.predecessorUnrenewed && !s.renewalAnswered: // although etcd granted this lease
		return session.ReasonUnreachable, fmt.Errorf("%w (%w)", s.lastErr, session.ErrNotRenewed)
	case s.lastErr != nil:
		return session.ReasonUnreachable, s.lastErr
	}
	return session.ReasonExpired, nil
}
