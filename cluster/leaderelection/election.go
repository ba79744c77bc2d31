package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state"
)

// Config is what an election needs. Client, Address, Mirror and Keeper are required.
type Config struct {
	// Client reaches etcd. The election never closes it.
	Client *clientv3.Client
	// Prefix is the cluster's prefix; the queue lies under <Prefix>/leader/.
	// Default /goverse.
	Prefix string
	// Address is the value of the candidate's key: what others see when
	// this candidate leads.
	Address string
	// Observer only observes and never stands for election.
	Observer bool
	// Fallback takes part in the choice by name when the election fails. It
	// needs member records, which package cluster keeps; without them nobody
	// qualifies.
	Fallback bool
	// RequestTimeout bounds each request to etcd. Default 2 s.
	RequestTimeout time.Duration
	// WorkTimeout bounds how long a leader that gives way waits for the functions
	// in Lead to return after their context ended. Default 5 s.
	WorkTimeout time.Duration
	// Mirror and Keeper are shared with the caller, who runs them, and
	// who ends the session when the election is stopped: a request that timed out
	// during Stop can still commit, and its key goes with the session only.
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper
	// Logger gets one line per change of leadership of this node. Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "/goverse"
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 2 * time.Second
	}
	if c.WorkTimeout <= 0 {
		c.WorkTimeout = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Client == nil {
		return errors.New("leaderelection: Config.Client is nil; give it an etcd client")
	}
	if c.Address == "" {
		return errors.New("leaderelection: Config.Address is empty; set the address that others should reach this node at")
	}
	if c.Mirror == nil || c.Keeper == nil {
		return errors.New("leaderelection: Config.Mirror or Config.Keeper is nil; give it both")
	}
	return nil
}

// LeaderElection is one node's part in an election. All methods are safe for
// concurrent use.
type LeaderElection struct {
	cfg    Config
	keys   state.Keys
	log    hclog.Logger
	mirror *watchcache.Mirror
	keeper *etcdsession.Keeper

	term   atomic.Pointer[Term]
	wake   chan struct{}
	ctx    context.Context // of the loop; ends with ErrStopped
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // loop, operations, observers

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change of the own part, if anybody asked
	asked   bool
	subs    map[*Subscription]struct{}
	started bool
	stopped bool
	part    candidacy.Candidacy
	round   *round // of the present session, nil between two
	failed  error  // why the election cannot work for this member
	ended   *Term  // the last term that ended, while its work may be running
	terms   int64
	lasted  stats.Durations // the terms that ended
	lastEnd *election.TermOverError
}

// New checks the configuration. [LeaderElection.Start] makes it live.
func New(cfg Config) (*LeaderElection, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	keys, err := state.NewKeys(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	le := &LeaderElection{cfg: cfg, keys: keys, log: cfg.Logger, mirror: cfg.Mirror, keeper: cfg.Keeper,
		lasted: stats.NewDurations(termBounds...), wake: make(chan struct{}, 1),
		changed: make(chan struct{}), subs: map[*Subscription]struct{}{},
		part: candidacy.New(candidacy.Settings{Address: cfg.Address, Fallback: cfg.Fallback, WorkTimeout: cfg.WorkTimeout},
			!cfg.Observer)}
	le.ctx, le.cancel = context.WithCancelCause(context.Background())
	return le, nil
}

// Start begins to observe and, unless an observer, to queue. It returns once
// this node is queued, or its election has failed, or (an observer) sees the
// cluster; not once it leads. If ctx ends before, everything is undone.
func (le *LeaderElection) Start(ctx context.Context) error {
	le.mu.Lock()
	if le.started || le.stopped {
		le.mu.Unlock()
		return ErrStarted
	}
	le.started = true
	le.wg.Go(le.run)
	le.mu.Unlock()
	if err := le.awaitQueued(ctx); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), le.cfg.RequestTimeout)
		defer cancel()
		_ = le.Stop(stopCtx) // what it could not confirm ends with the lease
		return fmt.Errorf("join the election under %s: %w", le.keys.Election(), err)
	}
	return nil
}

func (le *LeaderElection) awaitQueued(ctx context.Context) error {
	stopped := false
	err := le.await(ctx, func() bool {
		s := le.mirror.Snapshot()
		if stopped = le.stopped; stopped {
			return true
		}
		if s == nil || le.round == nil {
			return false
		}
		own, _ := s.Candidate(int64(le.round.s.ID()))
		return own != nil || le.failed != nil || !le.part.Standing()
	})
	if err == nil && stopped {
		return election.ErrStopped
	}
	return err
}

// Withdraw gives leadership up if this node leads, leaves the queue and does not
// come back. The flag is down within microseconds; the call blocks until the work
// in Lead has returned (for WorkTimeout) and etcd confirmed (for RequestTimeout, after
// which it is still being tried, and the session's end does it in any case), the
// session is gone, or ctx ends, which alone is an error. The election goes on observing.
func (le *LeaderElection) Withdraw(ctx context.Context) error {
	le.mu.Lock()
	part, ended := le.part.Withdraw(time.Now())
	le.part = part
	le.endTerm(ended, nil)
	le.mu.Unlock()
	le.poke()
	err := le.await(ctx, func() bool {
		return le.round == nil || le.term.Load() == nil && (le.ended == nil || le.ended.work == 0)
	})
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, le.cfg.RequestTimeout)
	defer cancel()
	err = le.await(bounded, func() bool { return le.round == nil || le.part.Clear(le.mirror.Snapshot()) })
	if ctx.Err() == nil {
		return nil
	}
	return err
}

// Stop withdraws, stops observing and joins every goroutine. If ctx ends before
// the withdrawal is confirmed, the rest is done all the same and ctx's error
// returned.
func (le *LeaderElection) Stop(ctx context.Context) error {
	le.mu.Lock()
	if le.stopped {
		le.mu.Unlock()
		return nil
	}
	le.stopped = true
	started := le.started
	le.mu.Unlock()
	var err error
	if started {
		err = le.Withdraw(ctx)
	}
	le.cancel(election.ErrStopped)
	le.notify()
	le.wg.Wait()
	return err
}

// IsLeader reports whether this node leads at this instant. It reads atomics and
// the clock: no lock, no allocation, no network.
func (le *LeaderElection) IsLeader() bool {
	t := le.term.Load()
	return t != nil && t.period.Valid()
}

// Term is the term that this node leads by now, or nil.
func (le *LeaderElection) Term() *Term {
	if t := le.term.Load(); t != nil && t.period.Valid() {
		return t
	}
	return nil
}

// Failed is why this node's election cannot work at present, or nil.
func (le *LeaderElection) Failed() error {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.failed
}

// termBounds reach from a term that was handed on at once to one of weeks.
var termBounds = []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
	6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// Lasted is how long those of this node's terms lasted that ended.
func (le *LeaderElection) Lasted() stats.Durations {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.lasted.Clone()
}

// Terms counts the terms that this node began.
func (le *LeaderElection) Terms() int64 {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.terms
}

// LastEnd says which term of this node ended last, and why; nil if none did.
func (le *LeaderElection) LastEnd() *election.TermOverError {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.lastEnd
}

// Resign gives leadership up: the flag is lowered, the term's context ended and
// its work awaited (for WorkTimeout) before etcd is notified; the node then queues
// again at the tail. It blocks until etcd confirmed that the key is gone, or the
// session is, or ctx ends; the resignation goes on in that case. It returns
// ErrNotLeader if this node does not lead.
func (le *LeaderElection) Resign(ctx context.Context) error {
	le.mu.Lock()
	t := le.term.Load()
	if t == nil || !t.period.Stands() {
		le.mu.Unlock()
		return election.ErrNotLeader
	}
	r := le.round
	part, ended := le.part.Resign(time.Now(), le.mirror.Snapshot())
	le.part = part
	le.endTerm(ended, nil)
	le.mu.Unlock()
	le.poke()
	return le.await(ctx, func() bool { return le.round != r || le.part.Over(t.token, le.mirror.Snapshot()) })
}

// await blocks until cond, which is about this node's own part, holds; it is
// called with the lock held.
func (le *LeaderElection) await(ctx context.Context, cond func() bool) error {
	for {
		le.mu.Lock()
		le.asked = true
		ok, changed := cond(), le.changed
		le.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// poke makes the loop look again.
func (le *LeaderElection) poke() {
	select {
	case le.wake <- struct{}{}:
	default:
	}
}

// notify wakes those who wait: something of the own part changed.
func (le *LeaderElection) notify() {
	le.mu.Lock()
	le.notifyLocked()
	le.mu.Unlock()
}

func (le *LeaderElection) notifyLocked() {
	for s := range le.subs {
		s.sub.Signal()
	}
	if !le.asked {
		return
	}
	le.asked = false
	close(le.changed)
	le.changed = make(chan struct{})
}
