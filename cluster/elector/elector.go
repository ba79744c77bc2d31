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
)

// The errors of an [Elector], to test for with errors.Is. The first two are causes of the
// context that OnStartedLeading gets.
var (
	// ErrExpired: the term ended because the lease was not renewed in time.
	ErrExpired = errors.New("the lease was not renewed in time")
	// ErrTaken: the term ended because the lease is another's, or was removed.
	ErrTaken = errors.New("the lease was taken by another holder or removed")
	// ErrRunning: Run was called while it ran.
	ErrRunning = errors.New("the elector runs already")
	// ErrNotReleased: the store did not confirm that the lease is given back. If it was not,
	// it runs out.
	ErrNotReleased = errors.New("the store did not confirm that the lease is given back")
)

// Elector is one candidate. All methods are safe for concurrent use.
type Elector struct {
	cfg      Config
	log      hclog.Logger
	instance string
	period   time.Duration // a little less than RetryPeriod, so that candidates get out of step
	now      func() deadline.Instant
	running  atomic.Bool
	term     atomic.Pointer[term] // nil unless this candidate leads
	seen     atomic.Pointer[standing]
}

// New checks the configuration; [Elector.Run] makes the candidate stand. The error wraps
// ErrBadConfig.
func New(cfg Config) (*Elector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	e := &Elector{cfg: cfg, log: cfg.Logger.With("candidate", cfg.CandidateID), instance: rand.Text(), now: deadline.Now,
		period: cfg.RetryPeriod - mathrand.N(cfg.RetryPeriod/8)}
	e.seen.Store(&standing{})
	return e, nil
}

// IsLeader reports whether this candidate leads at this instant. It reads atomics and the
// clock: no lock, no network.
func (e *Elector) IsLeader() bool { return e.leading() != nil }

// Token is the fencing token of the term that this candidate leads at this instant, above 0; 0
// if it does not lead. While OnStartedLeading runs, it is that term's or 0, never a later one.
func (e *Elector) Token() int64 {
	if t := e.leading(); t != nil {
		return t.token
	}
	return 0
}

func (e *Elector) leading() *term {
	if t := e.term.Load(); t != nil && t.valid() {
		return t
	}
	return nil
}

// Leader is the CandidateID of who leads, as far as this candidate knows: of itself exactly, of
// others as of its last look. It is "" when nobody does, or the record was not seen to change for
// its LeaseDuration. It does not block.
func (e *Elector) Leader() string {
	if e.IsLeader() {
		return e.cfg.CandidateID
	}
	return e.seen.Load().other(e.now())
}

// Run stands for leadership until ctx ends, in one term after the other. It blocks until every
// function it called has returned, and with ReleaseOnCancel until the lease is given back, or
// has run out; if the store does not answer then, for RetryPeriod or a fifth of LeaseDuration,
// whichever is longer. It may be called again when it has returned. The error is nil, or matches
// ErrNotReleased, or is ErrRunning.
func (e *Elector) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	defer logqueue.Flush(context.Background(), e.log)
	began := e.now()
	r := &run{e: e, says: newAnnouncer(func(id string) {
		e.left("OnNewLeader", callback.Finish(func() { e.cfg.OnNewLeader(id) }))
	}), s: standing{id: e.cfg.CandidateID, instance: e.instance,
		duration: e.cfg.LeaseDuration, period: e.period, since: began, next: began.Mono}}
	var wg sync.WaitGroup
	wg.Go(r.says.run)
	defer wg.Wait()
	defer r.says.close()
	for ctx.Err() == nil {
		r.turn(ctx)
	}
	return r.stop(context.WithoutCancel(ctx))
}
