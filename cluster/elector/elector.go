package elector

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/wait"
)

// The errors of an [Elector]; test for them with errors.Is. The first two are causes of the context of
// OnStartedLeading.
var (
	// ErrExpired reports that the term ended because the lease was not renewed in time.
	ErrExpired = errors.New("the lease was not renewed in time")
	// ErrTaken reports that the term ended because another holder has the lease, or it was removed.
	ErrTaken = errors.New("the lease was taken by another holder or removed")
	// ErrRunning is returned by Run if it is running already.
	ErrRunning = errors.New("the elector runs already")
	// ErrNotReleased is returned if the store did not confirm the release of the lease. If the lease was not
	// released, it expires.
	ErrNotReleased = errors.New("the store did not confirm that the lease is given back")
)

// Elector is one candidate. All methods are safe for concurrent use.
type Elector struct {
	cfg      Config
	log      hclog.Logger
	instance string
	period   time.Duration // slightly less than RetryPeriod, so that candidates do not act in step
	now      func() deadline.Instant
	running  atomic.Bool
	term     atomic.Pointer[term] // nil unless this candidate leads
	state    atomic.Pointer[leaseState]
	terms    termSignal
}

// New returns a candidate, or an error that matches ErrBadConfig. Call [Elector.Run] to campaign.
func New(cfg Config) (*Elector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	e := &Elector{cfg: cfg, log: cfg.Logger.With("candidate", cfg.CandidateID), instance: rand.Text(), now: deadline.Now,
		period: cfg.RetryPeriod - mathrand.N(cfg.RetryPeriod/8)}
	e.state.Store(&leaseState{})
	return e, nil
}

// IsLeader reports whether this candidate leads at this instant. It reads atomics and the clock, and uses
// neither locks nor the network.
func (e *Elector) IsLeader() bool { return e.currentTerm() != nil }

// Token returns the fencing token of the term in which this candidate leads at this instant, or 0 if it does
// not lead. A token is greater than 0. While OnStartedLeading runs, it is the token of that term or 0, never
// that of a later term.
func (e *Elector) Token() int64 {
	if t := e.currentTerm(); t != nil {
		return t.token
	}
	return 0
}

func (e *Elector) currentTerm() *term {
	if t := e.term.Load(); t != nil && t.valid() {
		return t
	}
	return nil
}

// Leader returns the CandidateID of the leader, as far as this candidate knows. It is exact for this candidate,
// and as of the last read for others. It returns "" if no candidate leads, or if the record has not changed for
// its LeaseDuration. It does not block.
func (e *Elector) Leader() string {
	if e.IsLeader() {
		return e.cfg.CandidateID
	}
	return e.state.Load().otherLeader(e.now())
}

// Run campaigns until ctx ends, in one term after the other. It then waits until every callback has returned.
// With ReleaseOnCancel it also waits until the lease is released. If the store does not answer, it waits until
// the lease has expired, and at least for RetryPeriod or a fifth of LeaseDuration, whichever is longer. Run may
// be called again after it has returned. It returns nil, an error that matches ErrNotReleased, or ErrRunning.
func (e *Elector) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	e.terms.notify(false)
	defer func() {
		e.terms.notify(true)
		e.running.Store(false)
	}()
	defer logqueue.Flush(context.Background(), e.log)
	began := e.now()
	r := &run{e: e, announcer: newAnnouncer(func(id string) {
		e.logAbandoned("OnNewLeader", callback.RunUnrecovered(func() { e.cfg.OnNewLeader(id) }))
	}), state: leaseState{id: e.cfg.CandidateID, instance: e.instance,
		duration: e.cfg.LeaseDuration, period: e.period, since: began, next: began.Mono, hintsSpent: began.Mono},
		hints: wait.NewSignal()}
	var wg sync.WaitGroup
	wg.Go(r.announcer.run)
	wg.Go(func() { e.watchLease(ctx, r.hints) })
	defer wg.Wait()
	defer r.announcer.close()
	for ctx.Err() == nil {
		r.performStep(ctx)
	}
	return r.finishTerm(context.WithoutCancel(ctx))
}
