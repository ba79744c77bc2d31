package etcdsession

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/renewal"
)

// ErrBadTTL is wrapped by [Config.Validate].
var ErrBadTTL = errors.New("bad session TTL")

// Config is what a session needs. Client is required.
type Config struct {
	// Client reaches etcd. The session never closes it.
	Client *clientv3.Client
	// TTL is the lease's time-to-live: whole seconds, at least one. Default 10 s.
	// etcd may grant more (its floor is 2 s at its default timing); the granted
	// value counts.
	TTL time.Duration
	// ReadKey is what a renewal's read asks for while no key is protected: any key that the user
	// may read, whether it exists or not. Default "/goverse/leader-request".
	ReadKey string
	// KnownRevision, if set, is asked before each linearizable read for the
	// newest etcd revision known to this process; an answer below it means that
	// etcd's history is another one. It must not block.
	KnownRevision func() int64
	// KnownTerm, if set, is asked for the newest raft term of etcd's that this process knows of.
	// It must not block.
	KnownTerm func() uint64
	// OnRead, if set, gets the header of each renewal's read, and what
	// KnownRevision was before it. It must not block.
	OnRead func(header *etcdserverpb.ResponseHeader, known int64)
	// Proxied, if set, reports whether etcd is reached through a proxy that answers renewals itself, as
	// etcd grpc-proxy: its answers may belong to renewals that were sent before, so it is etcd that is asked
	// how long the lease lasts. That is reported in whole seconds: up to one of them is lost. It must not block.
	Proxied func() bool
	// Clock reads both clocks that the deadline is about. It must not block. Default: those of this machine.
	Clock func() deadline.Instant
	// Renewals, if set, counts the rounds of this session with those of others.
	Renewals *Renewals
	// Logger gets one line per event an operator cares about. Default: none.
	Logger hclog.Logger
}

// Validate reports what is wrong with the configuration.
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
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.ReadKey == "" {
		c.ReadKey = "/goverse/leader-request"
	}
	if c.Clock == nil {
		c.Clock = deadline.Now
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Session is one lease, renewed by goroutines of its own until it is lost or
// closed. All methods are safe for concurrent use.
type Session struct {
	cfg  Config
	id   clientv3.LeaseID
	ttl  time.Duration // as granted
	term uint64        // of raft, in which that was

	renewals    *renewal.Renewer
	endRenewals func()                         // once
	claim       atomic.Pointer[deadline.Claim] // changed with mu held
	period      atomic.Pointer[Period]         // the same
	over        atomic.Bool
	newest      atomic.Uint64                   // raft term that this session has seen
	pauses      atomic.Pointer[deadline.Pauses] // changed with mu held

	ctx    context.Context
	cancel context.CancelCauseFunc
	check  chan struct{}
	nearer chan struct{} // the deadline moved forward
	wg     sync.WaitGroup

	mu        sync.Mutex
	lost      *session.LostError
	lastRound time.Duration           // that succeeded
	lastRead  time.Duration           // that was answered
	readBy    uint64                  // the member of etcd that did
	endRound  context.CancelCauseFunc // of the latest renewal, nil before the first
	roundSent deadline.Instant        // when that round began
	missed    int                     // rounds since the last that counted
	protected []*Protection
	clusterID uint64
	revision  int64 // newest revision seen by this session's own reads
	lastErr   error // of the renewals since the last one that succeeded
	unrenewed bool  // the session before it was lost before a renewal of its lease was answered
	answered  bool  // a renewal of the lease was
	listeners []*listener

	pauseLogged time.Time // when a pause was logged last
}

// Open grants a lease and starts to renew it. It blocks until etcd answered or
// ctx ends. The session outlives ctx; end it with [Session.Close].
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
	s := &Session{cfg: cfg, id: grant.ID, ttl: time.Duration(grant.TTL) * time.Second, term: grant.GetRaftTerm(),
		check: make(chan struct{}, 1), nearer: make(chan struct{}, 1), clusterID: grant.ClusterId}
	renewals, release := renewal.Share(cfg.Client)
	s.renewals, s.endRenewals = renewals, sync.OnceFunc(release)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.pauses.Store(&deadline.Pauses{})
	s.count(deadline.Granted(sent, s.ttl))
	s.wg.Go(s.renewLoop)
	s.wg.Go(s.deadlineLoop)
	return s, nil
}

// ID is the lease's id.
func (s *Session) ID() clientv3.LeaseID { return s.id }

// TTL is the time-to-live that etcd granted.
func (s *Session) TTL() time.Duration { return s.ttl }

// Term is etcd's raft term in which the lease was granted.
func (s *Session) Term() uint64 { return s.term }

// Valid reports whether the session may be acted on at this instant. It reads
// atomics and the clock: no lock, no allocation, no network. It can turn true again
// after a suspension (see [Period]), and after the process stood still.
func (s *Session) Valid() bool {
	now := s.cfg.Clock()
	return !s.over.Load() && s.claim.Load().Valid(now) && s.awake(now)
}

// Deadline is the instant at which Valid turns false unless a renewal comes.
func (s *Session) Deadline() time.Time { return time.Unix(0, s.claim.Load().Until().Wall) }

// Ended reports whether the lease, as it was last renewed, has run out by now on either clock, whether or not
// the session was lost or suspended before that.
func (s *Session) Ended() bool { return s.claim.Load().Ended(s.cfg.Clock()) }

// Left is how long Valid stays true from now on unless a renewal comes, by the clock that
// has less of it: for telling the deadline to another process, which has clocks of its own.
// Nothing or less: it is not true any more.
func (s *Session) Left() time.Duration {
	if s.over.Load() {
		return 0
	}
	return s.cfg.Clock().Until(s.claim.Load().Until())
}

// Renewed is when the renewal that counts was sent.
func (s *Session) Renewed() time.Time { return time.Unix(0, s.claim.Load().RenewedAt().Wall) }

// Context ends when the session is lost or closed, with a
// [session.LostError] as its cause.
func (s *Session) Context() context.Context { return s.ctx }

// Done is closed when the session is lost or closed.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Err is nil while the session stands, and a [session.LostError] after.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		return nil
	}
	return s.lost
}

// Lose ends the session without asking etcd: Valid is false when it returns.
// Only the first call counts.
func (s *Session) Lose(reason session.Reason, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return
	}
	s.over.Store(true)
	s.lost = &session.LostError{Reason: reason, Err: err}
	s.cancel(s.lost)
}

// Close ends the session and revokes its lease, so that its keys vanish at
// once. It blocks until etcd confirmed, or ctx ends; the lease then ends by
// itself. Closing twice is harmless.
func (s *Session) Close(ctx context.Context) error {
	s.Lose(session.ReasonClosed, nil)
	s.wg.Wait()
	s.endRenewals()
	if _, err := s.cfg.Client.Revoke(clientv3.WithRequireLeader(ctx), s.id); err != nil &&
		!errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke lease %x: %w", int64(s.id), err)
	}
	return nil
}

// Suspected reports whether there is a sign that others may take this process for gone
// which etcd has not cleared yet; see [Session.Suspect]. What is claimed goes on for a
// while; nothing new should be claimed.
func (s *Session) Suspected() bool {
	return s.claim.Load().Suspected() || !s.mayBegin(s.cfg.Clock())
}

// Check asks for a renewal round now, because somebody saw a sign that the
// session may be gone. It does not block.
func (s *Session) Check() {
	select {
	case s.check <- struct{}{}:
	default:
	}
}

// Suspect says that others may take this process for gone: the session is suspended after
// within, or after five times as long as its last round took if that is longer, unless a
// renewal round that is sent from now on succeeds. One is sent at once. A suspended
// session is not valid, so nothing is claimed on it, and keeps its lease and its keys: it
// counts again, in another [Period], as soon as a round succeeds. It does not block.
func (s *Session) Suspect(within time.Duration) { s.SuspectSince(0, within) }

// SuspectSince is Suspect for a sign that may have been there for so long: that time is not given again.
func (s *Session) SuspectSince(late, within time.Duration) {
	s.mu.Lock()
	before := s.claim.Load()
	s.count(before.Suspect(s.cfg.Clock(), max(within, Slowdown*s.lastRound)-late))
	if s.endRound != nil && !before.Suspected() {
		// It may take long, and would prove nothing. One that was sent since an earlier
		// suspicion clears that.
		s.endRound(errSuspected)
	}
	s.mu.Unlock()
	select {
	case s.nearer <- struct{}{}:
	default:
	}
	s.Check()
}

// deadlineLoop turns the passing of the deadline into the loss of the session, and of
// a suspicion's into its suspension. It does no I/O: nothing can hold it up.
func (s *Session) deadlineLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.nearer:
		case <-s.ctx.Done():
			return
		}
		left, suspended := s.look()
		if suspended != nil {
			s.cfg.Logger.Warn("others may take this node for gone, and etcd has not confirmed in time that they do not: it "+
				"claims nothing until etcd does",
				"lease", leaseName(s.id), "error", suspended.Err)
		}
		if left <= 0 {
			s.Lose(s.whyExpired(-left))
			return
		}
		// Looked at more often than needed, for a wall clock that jumped or a
		// machine that was suspended: timers run on the monotonic clock.
		if s.beat() {
			s.Lose(session.ReasonStarved, errStarved)
			return
		}
		timer.Reset(min(left, s.ttl/10, beatEvery))
	}
}

// look suspends the session if it is time, and returns how long it is until there is
// something to do; nothing or less: it is over. If it did suspend it, why.
func (s *Session) look() (left time.Duration, suspended *session.LostError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim, now := s.claim.Load(), s.cfg.Clock()
	if claim.Valid(now) {
		return now.Until(claim.Until()), nil
	}
	if !claim.Ended(now) {
		suspended = s.suspend()
	}
	return now.Until(claim.Ends()), suspended
}

// follows notes of a session that was granted when the one before was lost whether that was before a renewal of its
// lease was answered.
func (s *Session) follows(unrenewed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unrenewed = unrenewed
}

// wasUnrenewed reports whether the session was lost because etcd did not answer, and never answered a renewal.
func (s *Session) wasUnrenewed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil && s.lost.Reason == session.ReasonUnreachable && !s.answered
}

func (s *Session) whyExpired(late time.Duration) (session.Reason, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case late > s.ttl/10:
		return session.ReasonPaused, s.lastErr
	case refused(s.lastErr):
		return session.ReasonPermission, s.lastErr
	case s.lastErr != nil && s.unrenewed && !s.answered: // though etcd granted this one
		return session.ReasonUnreachable, fmt.Errorf("%w (%w)", s.lastErr, session.ErrNotRenewed)
	case s.lastErr != nil:
		return session.ReasonUnreachable, s.lastErr
	}
	return session.ReasonExpired, nil
}
