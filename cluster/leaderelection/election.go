package leaderelection

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/stats"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/histogram"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// MemberConfig configures the election of a member that watches etcd, keeps a session and registers by itself, as a
// node does. Only packages of this module can fill it in. Client, Keys, Address, Mirror and Keeper are required.
type MemberConfig struct {
	etcd.Process
	// Observer makes the node observe without ever standing for election.
	Observer bool
	// Fallback lets the node act as leader when the election fails. It needs the member records that package
	// cluster keeps; without them no node qualifies.
	Fallback bool
	// WorkTimeout limits how long a leader that gives way waits for the functions in Lead to return after their
	// context has ended. Default 5 s.
	WorkTimeout time.Duration
	// Mirror and Keeper belong to the caller, which must run them. It must also end the session once the
	// election is stopped: a request that timed out during Stop may still be committed, and its key then goes
	// only with the session.
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper
}

func (c MemberConfig) withDefaults() MemberConfig {
	c.Process = c.Process.WithDefaults()
	if c.WorkTimeout <= 0 {
		c.WorkTimeout = 5 * time.Second
	}
	return c
}

// Validate reports the first required field that is missing.
func (c MemberConfig) Validate() error {
	if c.Client == nil {
		return errors.New("leaderelection: MemberConfig.Client is nil; give it an etcd client")
	}
	if c.Keys == (state.Keys{}) {
		return errors.New("leaderelection: MemberConfig.Keys is empty; make it with state.NewKeys")
	}
	if c.Address == "" {
		return errors.New("leaderelection: MemberConfig.Address is empty; set the address of this member")
	}
	if c.Mirror == nil || c.Keeper == nil {
		return errors.New("leaderelection: MemberConfig.Mirror or MemberConfig.Keeper is nil; give it both")
	}
	return nil
}

// LeaderElection represents one node's part in the election. All methods are safe for concurrent use.
type LeaderElection struct {
	cfg    MemberConfig
	keys   state.Keys
	log    hclog.Logger
	mirror *watchcache.Mirror
	keeper *etcdsession.Keeper

	term   atomic.Pointer[ownTerm]
	wake   wait.Signal
	ctx    context.Context // of the loop; ends with ErrStopped
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // loop, operations, observers

	mu            sync.Mutex
	changed       chan struct{} // closed and replaced at every change of the own part if changeAwaited is set
	changeAwaited bool
	subs          map[*Subscription]struct{}
	started       bool
	stopped       bool
	candidacy     candidacy.Candidacy
	sessionRun    *sessionRun // of the present session; nil between two sessions
	failure       error       // reason why the election cannot work for this member
	lastTerm      *ownTerm    // the present term or the last one; nil if there was none
	overdue       termscope.Overdue
	terms         int64
	termDurations *histogram.Durations // durations of ended terms
	lastEnd       *TermOverError
}

// NewForMember returns the election of a member, and the value that starts and ends it. The error describes a mistake
// in the configuration.
func NewForMember(cfg MemberConfig) (*LeaderElection, *Participation, error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, err
	}
	cfg = cfg.withDefaults()
	le := &LeaderElection{cfg: cfg, keys: cfg.Keys, log: cfg.Logger, mirror: cfg.Mirror, keeper: cfg.Keeper,
		termDurations: histogram.NewDurations(termBounds...), wake: wait.NewSignal(),
		changed: make(chan struct{}), subs: map[*Subscription]struct{}{},
		candidacy: candidacy.New(candidacy.Settings{Address: cfg.Address, Fallback: cfg.Fallback}, !cfg.Observer)}
	le.ctx, le.cancel = context.WithCancelCause(context.Background())
	return le, &Participation{le}, nil
}

// IsLeader reports whether this node leads at this instant. It reads atomics and the clock: no lock, no
// allocation, no network.
func (le *LeaderElection) IsLeader() bool {
	t := le.term.Load()
	return t != nil && t.period.Valid()
}

// Term returns the term by which this node leads at this instant. It returns false if this node does not lead.
func (le *LeaderElection) Term() (Term, bool) {
	if t := le.currentTerm(); t != nil {
		return t, true
	}
	return nil, false
}

// currentTerm returns the term by which this node leads at this instant, or nil.
func (le *LeaderElection) currentTerm() *ownTerm {
	if t := le.term.Load(); t != nil && t.period.Valid() {
		return t
	}
	return nil
}

// Failed returns the reason why this node's election cannot work at present, or nil.
func (le *LeaderElection) Failed() error {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.failure
}

// termBounds range from a term that ended at once to one of weeks.
var termBounds = []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
	6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// Lasted returns the durations of this node's ended terms.
func (le *LeaderElection) Lasted() stats.Durations {
	return le.termDurations.Snapshot()
}

// Terms returns the number of terms that this node has begun.
func (le *LeaderElection) Terms() int64 {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.terms
}

// LastEnd describes the end of this node's last ended term; nil if none has ended.
func (le *LeaderElection) LastEnd() *TermOverError {
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.lastEnd
}

// Resign ends this node's term. The flag goes down, the term's context ends, its work is waited for (at most
// WorkTimeout), and only then is the key deleted in etcd; the node then queues again at the tail. Resign blocks
// until etcd has confirmed the deletion, the session is lost, or ctx ends, in which case the resignation
// continues. The error is ErrNotLeader if this node does not lead.
func (le *LeaderElection) Resign(ctx context.Context) error {
	le.mu.Lock()
	t := le.term.Load()
	if t == nil || !t.period.ValidDespitePause() {
		le.mu.Unlock()
		return ErrNotLeader
	}
	r := le.sessionRun
	part, ended := le.candidacy.Resign(time.Now(), le.mirror.Snapshot())
	le.candidacy = part
	le.endTerm(ended, nil)
	le.mu.Unlock()
	le.wake.Send()
	return le.waitUntil(ctx, func() bool {
		return le.sessionRun != r ||
			le.candidacy.TermKeyGone(t.token, le.mirror.Snapshot())
	})
}

// waitUntil blocks until cond holds or ctx ends. cond concerns this node's own part and is called with le.mu held.
func (le *LeaderElection) waitUntil(ctx context.Context, cond func() bool) error {
	for {
		le.mu.Lock()
		le.changeAwaited = true
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

// notifyChange wakes all that wait for a change of the own part.
func (le *LeaderElection) notifyChange() {
	le.mu.Lock()
	le.notifyLocked()
	le.mu.Unlock()
}

func (le *LeaderElection) notifyLocked() {
	for s := range le.subs {
		s.sub.Signal()
	}
	if !le.changeAwaited {
		return
	}
	le.changeAwaited = false
	close(le.changed)
	le.changed = make(chan struct{})
}
