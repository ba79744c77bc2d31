package etcdsession

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/wait"
)

// Hooks are called by a Keeper. Each may be nil.
type Hooks struct {
	// Register is called with every new session before Current returns it. It creates the keys that
	// depend on the session, such as a node key, and calls ProtectKey for them. It blocks until that is done, the
	// session is lost (the keeper then opens another), or its context ends. If Register fails while the session
	// stands, and no earlier session of this keeper was registered, Run returns the error. After the first
	// registration, failures are retried with a new session.
	Register func(ctx context.Context, s *Session) error
	// OnLost is called with every session that was lost without being closed. The keeper revokes the
	// lease and opens the next session only after OnLost returns. OnLost should block only until everything has
	// ended that must end before other nodes may proceed.
	OnLost func(s *Session, lost *session.LostError)
	// Explain adds the remedy to errors that report that etcd refused this user, for the log. It must
	// not block.
	Explain func(err error) error
}

// Keeper always maintains one session. When the session is lost, the keeper revokes its lease as soon as etcd
// answers, and opens and registers a new one. All methods are safe for concurrent use.
type Keeper struct {
	cfg   Config
	hooks Hooks
	log   hclog.Logger

	outage outage // used by Run's goroutine alone

	mu           sync.Mutex
	current      *Session
	changed      chan struct{}
	lostSessions int64
	revokeErr    error
}

const (
	openTimeout  = 2 * time.Second
	closeTimeout = time.Second
)

// NewKeeper returns a keeper, which [Keeper.Run] starts. It returns an error if the configuration is invalid.
func NewKeeper(cfg Config, hooks Hooks) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Renewals == nil {
		cfg.Renewals = NewRenewals()
	}
	return &Keeper{cfg: cfg, hooks: hooks, log: cfg.Logger, changed: make(chan struct{})}, nil
}

// Renewals returns the counts of all its sessions so far.
func (k *Keeper) Renewals() *Renewals { return k.cfg.Renewals }

// Current returns the registered session, or nil between two of them. The session may already be lost: check
// Valid.
func (k *Keeper) Current() *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Changed returns a channel that is closed at the next change of Current.
func (k *Keeper) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// LostSessions returns the number of sessions lost so far. It does not count closed sessions.
func (k *Keeper) LostSessions() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lostSessions
}

// RevokeError returns the error because of which Run, after its context had ended, could not revoke the last lease.
// The keys of that lease remain until it expires. RevokeError returns nil if etcd confirmed that the lease is gone.
func (k *Keeper) RevokeError() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.revokeErr
}

// Wait blocks until there is a registered session other than old, and returns it, or until ctx ends.
func (k *Keeper) Wait(ctx context.Context, old *Session) (*Session, error) {
	for {
		k.mu.Lock()
		s, changed := k.current, k.changed
		k.mu.Unlock()
		if s != nil && s != old {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Run opens, registers and replaces sessions until ctx ends. It then closes the last one and returns nil. If
// etcd does not answer, closing takes about a second longer. Run returns an error if the first registration
// fails for good.
func (k *Keeper) Run(ctx context.Context) error {
	retry := backoff.Backoff{Policy: deadline.OpenRetry, Random: k.cfg.Random}
	registered, said := false, false
	unrenewed := false // the last session ended before any renewal of it was answered
	for ctx.Err() == nil {
		s, err := k.openSession(ctx)
		if err == nil {
			s.setPredecessorUnrenewed(unrenewed)
			if err = k.registerSession(ctx, s); err != nil {
				final := !registered && s.Err() == nil && ctx.Err() == nil
				k.revokeSession(ctx, s)
				if final {
					return err
				}
			}
		}
		if err != nil {
			if !said && ctx.Err() == nil {
				k.log.Warn("could not open a session, trying again until it works", "error", k.explainRefusal(err))
				said = true
			}
			k.logReminder(err)
			wait.For(ctx, retry.Next())
			continue
		}
		registered, said = true, false
		retry.Reset()
		k.setCurrent(s)
		if !k.outage.since.IsZero() {
			k.log.Info("session restored", "lease", leaseName(s.id), "away", k.outage.length(time.Now()))
			k.outage.end()
		}
		select {
		case <-s.Done():
		case <-ctx.Done():
		}
		unrenewed = s.wasUnrenewed()
		lost, _ := errors.AsType[*session.LostError](s.Err())
		if lost != nil && lost.Reason != session.ReasonClosed {
			k.mu.Lock()
			k.lostSessions++
			k.mu.Unlock()
			k.outage.begin(time.Now())
			about := []any{"lease", leaseName(s.id), "reason", string(lost.Reason), event.Field, string(event.SessionLost)}
			if lost.Err != nil { // there is none after a pause
				about = append(about, "error", lost.Err)
			}
			k.log.Error("the session is lost, opening a new one", about...)
			if k.hooks.OnLost != nil {
				k.hooks.OnLost(s, lost)
			}
		}
		k.setCurrent(nil)
		k.revokeSession(ctx, s)
	}
	return nil
}

// isUserRefused reports whether etcd has answered that there is no such user or that the user lacks the right.
func isUserRefused(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) ||
		errors.Is(err, rpctypes.ErrAuthFailed)
}

// explainRefusal returns err for the log, with the remedy if etcd refused the user.
func (k *Keeper) explainRefusal(err error) error {
	if k.hooks.Explain == nil || !isUserRefused(err) {
		return err
	}
	return k.hooks.Explain(err)
}

func (k *Keeper) openSession(ctx context.Context) (*Session, error) {
	octx, cancel := context.WithTimeout(ctx, max(openTimeout, k.cfg.TTL/5))
	defer cancel()
	s, err := Open(octx, k.cfg)
	if err == nil && s.TTL() != k.cfg.TTL {
		k.log.Warn("etcd granted another TTL than requested: its minimum is 1.5 election time-outs",
			"asked", k.cfg.TTL.String(), "granted", s.TTL().String())
	}
	return s, err
}

func (k *Keeper) registerSession(ctx context.Context, s *Session) error {
	if k.hooks.Register == nil {
		return nil
	}
	ctx, stop := wait.MergeContexts(ctx, s.Context())
	defer stop()
	if err := k.hooks.Register(ctx, s); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// revokeSession ends s and its lease, and retries until etcd has answered. A lease does not run while etcd is away,
// and gets a fresh TTL when etcd is back. If revokeSession gave up early, the old node key would block the new
// session. While the keeper is being stopped, it retries for closeTimeout only, because a node must be able
// to stop while etcd is away.
func (k *Keeper) revokeSession(ctx context.Context, s *Session) {
	var stopBy time.Time
	retry := backoff.Backoff{Policy: deadline.RevokeRetry, Random: k.cfg.Random}
	for {
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.TTL()/5, closeTimeout))
		err := s.Close(attempt)
		cancel()
		if err == nil {
			return
		}
		denied := isUserRefused(err) // an early retry would not help, and the next session's error is more specific
		if !denied {
			k.logReminder(err)
		}
		if ctx.Err() != nil && stopBy.IsZero() {
			stopBy = time.Now().Add(closeTimeout)
		}
		if denied || !stopBy.IsZero() && time.Now().After(stopBy) {
			if ctx.Err() != nil {
				k.mu.Lock()
				k.revokeErr = err
				k.mu.Unlock()
			}
			k.log.Warn("could not revoke the lease, it will expire by itself", "lease", leaseName(s.id),
				"after", s.TTL().String(), "error", err)
			return
		}
		wait.For(context.WithoutCancel(ctx), retry.Next())
	}
}

func (k *Keeper) setCurrent(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = s
	close(k.changed)
	k.changed = make(chan struct{})
}
