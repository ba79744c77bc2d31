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

// KeeperConfig is what a keeper needs.
type KeeperConfig struct {
	Config
	// Register, if set, is called with every new session before others see it.
	// It puts down what stands on the session (a node key) and calls Protect for
	// it. It blocks until that is done, the session is lost (the keeper opens
	// another), or its context ends. An error while the session stands is final
	// if no session of this keeper was registered before; after that it is tried
	// again with a new session.
	Register func(ctx context.Context, s *Session) error
	// OnLost, if set, is called with every session that was lost without being
	// closed, before its lease is revoked and the next one opened: while it blocks,
	// both wait. It blocks, if at all, until what must end before others may go on
	// has ended.
	OnLost func(s *Session, lost *session.LostError)
	// Explain, if set, adds the remedy to etcd's refusal of this user, for the log. It must not block.
	Explain func(err error) error
	// Random draws the numbers in [0, 1) by which retries get out of step, for a simulation that is to
	// come out the same again. It is called by one goroutine. Default: math/rand's.
	Random func() float64
}

// Keeper keeps one session alive: when it is lost, its lease is revoked as soon
// as etcd answers, and a new session is opened and registered, forever. All
// methods are safe for concurrent use.
type Keeper struct {
	cfg KeeperConfig
	log hclog.Logger

	outage outage // of Run's goroutine

	mu      sync.Mutex
	current *Session
	changed chan struct{}
	lost    int64
	left    error
}

const (
	openTimeout  = 2 * time.Second
	closeTimeout = time.Second
)

// NewKeeper checks the configuration; [Keeper.Run] makes it live.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Config = cfg.withDefaults()
	if cfg.Renewals == nil {
		cfg.Renewals = NewRenewals()
	}
	return &Keeper{cfg: cfg, log: cfg.Logger, changed: make(chan struct{})}, nil
}

// Renewals are those of all its sessions so far.
func (k *Keeper) Renewals() *Renewals { return k.cfg.Renewals }

// Current is the registered session, or nil between two of them. It may have
// been lost already: ask Valid.
func (k *Keeper) Current() *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Changed is closed at the next change of Current.
func (k *Keeper) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Lost counts the sessions lost so far, those closed apart.
func (k *Keeper) Lost() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// Left is why Run, when its context ended, could not see the last lease off: its
// keys stay until it runs out. Nil if etcd confirmed that it is gone.
func (k *Keeper) Left() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.left
}

// Wait blocks until a registered session other than old is there, or ctx ends.
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

// Run opens, registers and replaces sessions until ctx ends; it then closes the
// last one, which takes about a second longer when etcd does not answer, and
// returns nil. It returns an error when the first registration
// failed for good.
func (k *Keeper) Run(ctx context.Context) error {
	retry := backoff.Backoff{Policy: deadline.OpenRetry, Random: k.cfg.Random}
	registered, said := false, false
	unrenewed := false // the last session was
	for ctx.Err() == nil {
		s, err := k.open(ctx)
		if err == nil {
			s.follows(unrenewed)
			if err = k.register(ctx, s); err != nil {
				final := !registered && s.Err() == nil && ctx.Err() == nil
				k.revoke(ctx, s, nil)
				if final {
					return err
				}
			}
		}
		if err != nil {
			if !said && ctx.Err() == nil {
				k.log.Warn("could not open a session, trying again until it works", "error", k.explain(err))
				said = true
			}
			k.remind(err)
			wait.For(ctx, retry.Next())
			continue
		}
		registered, said = true, false
		retry.Reset()
		k.set(s)
		if !k.outage.since.IsZero() {
			k.log.Info("the session stands again", "lease", leaseName(s.id), "away", k.outage.length(time.Now()))
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
			k.lost++
			k.mu.Unlock()
			k.outage.begin(time.Now())
			about := []any{"lease", leaseName(s.id), "reason", string(lost.Reason), event.Field, string(event.SessionLost)}
			if lost.Err != nil { // none after a pause
				about = append(about, "error", lost.Err)
			}
			k.log.Error("the session is lost, opening a new one", about...)
			if k.cfg.OnLost != nil {
				k.cfg.OnLost(s, lost)
			}
		}
		k.set(nil)
		k.revoke(ctx, s, lost)
	}
	return nil
}

// refused reports whether etcd has answered that this user may not, or is none.
func refused(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) ||
		errors.Is(err, rpctypes.ErrAuthFailed)
}

// explain is err for the log.
func (k *Keeper) explain(err error) error {
	if k.cfg.Explain == nil || !refused(err) {
		return err
	}
	return k.cfg.Explain(err)
}

func (k *Keeper) open(ctx context.Context) (*Session, error) {
	octx, cancel := context.WithTimeout(ctx, max(openTimeout, k.cfg.TTL/5))
	defer cancel()
	s, err := Open(octx, k.cfg.Config)
	if err == nil && s.TTL() != k.cfg.TTL {
		k.log.Warn("etcd granted another TTL than asked for: it grants no less than 1.5 election time-outs",
			"asked", k.cfg.TTL.String(), "granted", s.TTL().String())
	}
	return s, err
}

func (k *Keeper) register(ctx context.Context, s *Session) error {
	if k.cfg.Register == nil {
		return nil
	}
	ctx, stop := wait.Within(ctx, s.Context())
	defer stop()
	if err := k.cfg.Register(ctx, s); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// revoke ends s and its lease, trying until etcd answered: a lease does not run
// while etcd is away, and gets a fresh TTL when etcd is back, so giving up early
// would leave the old node key in the new session's way. When the keeper is being
// stopped it tries for closeTimeout: a node must be able to stop while etcd is
// away.
func (k *Keeper) revoke(ctx context.Context, s *Session, lost *session.LostError) {
	if lost != nil && lost.Reason == session.ReasonRevoked {
		_ = s.Close(canceled) // only joins: there is no lease to revoke
		return
	}
	var stopBy time.Time
	retry := backoff.Backoff{Policy: deadline.RevokeRetry, Random: k.cfg.Random}
	for {
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.TTL()/5, closeTimeout))
		err := s.Close(attempt)
		cancel()
		if err == nil {
			return
		}
		denied := refused(err) // trying soon again would not help: the next session's error says more
		if !denied {
			k.remind(err)
		}
		if ctx.Err() != nil && stopBy.IsZero() {
			stopBy = time.Now().Add(closeTimeout)
		}
		if denied || !stopBy.IsZero() && time.Now().After(stopBy) {
			if ctx.Err() != nil {
				k.mu.Lock()
				k.left = err
				k.mu.Unlock()
			}
			k.log.Warn("could not revoke the lease, it runs out by itself", "lease", leaseName(s.id),
				"after", s.TTL().String(), "error", err)
			return
		}
		wait.For(context.WithoutCancel(ctx), retry.Next())
	}
}

func (k *Keeper) set(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = s
	close(k.changed)
	k.changed = make(chan struct{})
}

// canceled is a context that has ended: a revoke under it does no I/O.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
