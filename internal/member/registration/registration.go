// Package registration keeps a process registered under a cluster's prefix: it watches the prefix, keeps a session,
// and writes the process's record for each session. A node is built on it, and so is an election by itself.
//
// Not promised: a registration at any given time. The process is registered while etcd answers and its address is
// free.
package registration

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/member/membership"
	"github.com/goverse/goverse/internal/state"
)

// Config configures a [Registration]. All fields are required unless their comment says otherwise.
type Config struct {
	etcd.Process
	// TTL is that of the session's lease.
	TTL time.Duration
	// Record describes this process. Its InstanceID distinguishes it from others.
	Record state.Record
	// RemovePredecessor, GracePeriod and Identify say how another instance at this address is removed; see
	// membership.Config. By default its lease is waited for.
	RemovePredecessor bool
	GracePeriod       time.Duration
	Identify          func(ctx context.Context, address string) (instance string, err error)
	// SilenceTimeout, if not 0, is that of this process.
	SilenceTimeout time.Duration

	// Accusations, if set, describes the keys by which other members accuse this one.
	Accusations etcdsession.Accusations
	// OnLost, if set, is called for each lost session; see etcdsession.Hooks.
	OnLost func(s *etcdsession.Session, lost *session.LostError)
	// Explain, if set, adds the remedy to an error by which etcd refuses this user. It is used for the log.
	Explain func(err error) error
}

// Registration keeps this process registered. Its parts are safe for concurrent use. Its own methods are for the one
// goroutine that starts and stops it.
type Registration struct {
	Mirror     *watchcache.Mirror
	Keeper     *etcdsession.Keeper
	Membership *membership.Membership

	cfg Config

	stopKeeper context.CancelFunc // makes the keeper revoke the session
	keeperDone chan struct{}
	keeperErr  error // the keeper's error; read it after keeperDone is closed

	backgroundCtx  context.Context // ends with Close
	stopBackground context.CancelFunc
	background     sync.WaitGroup
}

// New assembles a registration. Nothing runs before Start.
func New(cfg Config) (*Registration, error) {
	cfg.Process = cfg.WithDefaults()
	r := &Registration{cfg: cfg, keeperDone: make(chan struct{})}
	r.Mirror = watchcache.New(watchcache.Config{Process: cfg.Named("mirror"), InstanceID: cfg.Record.InstanceID,
		LagTimeout: cfg.TTL / 3})
	r.Membership = membership.New(membership.Config{Process: cfg.Named("member"), Mirror: r.Mirror, Record: cfg.Record,
		RemovePredecessor: cfg.RemovePredecessor, GracePeriod: cfg.GracePeriod, Identify: cfg.Identify,
		SilenceTimeout: cfg.SilenceTimeout, MeasureEvery: cfg.TTL / 3})
	keeper, err := etcdsession.NewKeeper(
		etcdsession.Config{Process: cfg.Named("session"), TTL: cfg.TTL, View: r.Mirror,
			Accusations: cfg.Accusations},
		etcdsession.Hooks{Register: r.Membership.Register, OnLost: r.handleLostSession, Explain: cfg.Explain})
	r.Keeper = keeper
	return r, err
}

// handleLostSession is called for each lost session.
func (r *Registration) handleLostSession(s *etcdsession.Session, lost *session.LostError) {
	if r.cfg.OnLost != nil {
		r.cfg.OnLost(s, lost)
	}
	if lost.Reason == session.ReasonOtherHistory { // a watch of the former history stays silent
		r.Mirror.Rebuild("etcd's history is another one")
	}
}

// Start starts to watch the cluster and to register. It does not block.
func (r *Registration) Start() {
	r.backgroundCtx, r.stopBackground = context.WithCancel(context.Background())
	r.Go(func(ctx context.Context) { _ = r.Mirror.Run(ctx) }) // its only error is the context's
	r.Go(r.Membership.Run)
	keeping, leave := context.WithCancel(context.Background())
	r.stopKeeper = leave
	go func() {
		defer close(r.keeperDone)
		select {
		case <-r.Mirror.Ready():
			r.keeperErr = r.Keeper.Run(keeping)
		case <-keeping.Done():
		}
	}()
}

// Go runs f in a goroutine until Close, which ends its context and waits for it. Call it after Start.
func (r *Registration) Go(f func(ctx context.Context)) {
	r.background.Go(func() { f(r.backgroundCtx) })
}

// AwaitRegistered blocks until the snapshot shows this process registered, and returns it. Errors are ctx's cause
// and membership.ErrAddressTaken.
func (r *Registration) AwaitRegistered(ctx context.Context) (*state.Snapshot, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watching := make(chan struct{})
	defer func() { <-watching }()
	defer cancel(nil)
	go func() {
		defer close(watching)
		select {
		case <-r.keeperDone:
			cancel(r.keeperErr)
		case <-ctx.Done():
		}
	}()
	if _, err := r.Keeper.Wait(ctx, nil); err != nil {
		return nil, err
	}
	return r.Mirror.Wait(ctx, func(s *state.Snapshot) bool {
		own := s.Member(r.cfg.Address)
		return own != nil && own.InstanceID == r.cfg.Record.InstanceID // not another process, which was there before
	})
}

// LastError returns the last error that kept this process from registering or from watching the cluster; nil if there
// is none.
func (r *Registration) LastError() error {
	if err := r.Membership.LastError(); err != nil {
		return err
	}
	return r.Mirror.ReadError()
}
