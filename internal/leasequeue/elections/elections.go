package elections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Config configures [Elections]. Queues and Address are required.
type Config struct {
	// Queues holds the queues at state.Keys.Elections. Their engine must run as long as the elections do. Its
	// client also carries the transactions of terms.
	Queues *leasequeue.Queues
	// Address is the address that other nodes see as the leader's.
	Address string
	// WorkTimeout limits how long a leader that gives way waits for the functions in Lead to return after their
	// context has ended. Default 5 s.
	WorkTimeout time.Duration
	// PreferAfter is the time that a candidate of a higher priority must stand before it leads. One
	// that comes and goes more often moves nothing. Default 5 s.
	PreferAfter time.Duration
	// IsFinal reports whether an error by which etcd refuses a candidate ends the candidacy. Lead then returns
	// the error, and a caller that calls Stand again starts anew. Default: no error does; it is logged and
	// retried about a second later.
	IsFinal func(error) bool
	// Logger receives one line per event of interest to an operator. Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.WorkTimeout <= 0 {
		c.WorkTimeout = 5 * time.Second
	}
	if c.PreferAfter <= 0 {
		c.PreferAfter = 5 * time.Second
	}
	if c.IsFinal == nil {
		c.IsFinal = func(error) bool { return false }
	}
	return c
}

// Validate reports the first required field that is missing.
func (c Config) Validate() error {
	var err error
	switch {
	case c.Queues == nil:
		err = errors.New("Config.Queues is nil; give it an engine's queues at state.Keys.Elections")
	case c.Address == "":
		err = errors.New("Config.Address is empty; set the address that others should reach this node at")
	}
	if err != nil {
		return fmt.Errorf("elections: %w", err)
	}
	return nil
}

// Elections holds the named elections that this process takes part in. All methods are safe for concurrent use.
type Elections struct {
	cfg Config

	life    context.Context // ends when closed is set
	endLife context.CancelCauseFunc
	wg      sync.WaitGroup // goroutines that feed channels; none is added once closed is set
	wake    wait.Signal    // receives when an election is dirty

	// mu is the only lock of the package. While it is held, no method of the queues is called that takes their lock:
	// the queues' own notifications take mu, and would deadlock.
	mu     sync.Mutex
	closed bool
	byName map[string]*Election
	dirty  map[*Election]struct{} // to be looked at by Run
}

// New returns elections that do nothing until [Elections.Run]. The error describes a mistake in the
// configuration.
func New(cfg Config) (*Elections, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	es := &Elections{cfg: cfg, byName: map[string]*Election{},
		dirty: map[*Election]struct{}{}, wake: wait.NewSignal()}
	es.life, es.endLife = context.WithCancelCause(context.Background())
	return es, nil
}

// Stand makes this node a candidate in the election with that name, even if it has withdrawn or was refused
// before. The same name returns the same election. The election is followed until it is closed or the node
// stops. Stand does not block. Errors are leaderelection.ErrBadName and ErrStopped.
func (es *Elections) Stand(name string, opts ...leaderelection.StandOption) (*Election, error) {
	var o leaderelection.StandOptions
	for _, opt := range opts {
		opt(&o)
	}
	return es.openElection(name, func(e *Election) { e.becomeCandidate(o) })
}

// Observe is like Stand, but does not make this node a candidate. If it already is one, it stays one.
func (es *Elections) Observe(name string) (*Election, error) {
	return es.openElection(name, (*Election).addObserver)
}

func (es *Elections) openElection(name string, want func(*Election)) (*Election, error) {
	if err := state.CheckName("election", name); err != nil {
		return nil, err
	}
	if e, err := es.applyRequest(name, nil, want); e != nil || err != nil {
		return e, err
	}
	made := &Election{elections: es, name: name}
	made.onChange = made.wake
	made.follower = es.cfg.Queues.Follow(name, made.onChange)
	e, err := es.applyRequest(name, made, want)
	if e != made { // another caller was faster
		made.follower.Stop()
	}
	return e, err
}

// applyRequest applies the request to the election with that name, or to made if there is none yet.
func (es *Elections) applyRequest(name string, made *Election, want func(*Election)) (*Election, error) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.closed {
		return nil, lifecycle.ErrStopped
	}
	e := es.byName[name]
	switch {
	case e == nil && made == nil:
		return nil, nil
	case e == nil:
		e = made
		es.byName[name] = e
	}
	want(e)
	es.markDirty(e)
	return e, nil
}

// dropElection drops an election unless it has been requested again.
func (es *Elections) dropElection(e *Election) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	if e.wanted || e.observers > 0 || es.byName[e.name] != e {
		return false
	}
	delete(es.byName, e.name)
	return true
}

// goTracked runs f in a goroutine that Close and Run wait for. It returns false and does nothing if all is closed.
func (es *Elections) goTracked(f func()) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.closed {
		return false
	}
	es.wg.Go(f)
	return true
}

// wakeElection makes Run look at the election soon.
func (es *Elections) wakeElection(e *Election) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.markDirty(e)
}

// markDirty is wakeElection for a caller that holds mu.
func (es *Elections) markDirty(e *Election) {
	es.dirty[e] = struct{}{}
	es.wake.Send()
}

// Run serves the elections until ctx ends. It must run beside the engine of the queues. It returns when all its
// goroutines have ended.
func (es *Elections) Run(ctx context.Context) {
	changed := es.cfg.Queues.Changed()
	for ctx.Err() == nil {
		for e := range es.takeDirty() {
			e.reconcile()
		}
		select {
		case <-es.wake:
		case <-changed:
			changed = es.cfg.Queues.Changed() // before the elections are looked at, so that no change is missed
			es.wakeAll()
		case <-ctx.Done():
		}
	}
	for _, e := range es.stopAccepting() {
		_ = e.endCandidacy(lifecycle.ErrStopped)
		e.reconcile()
		e.abandonWork()
	}
	es.wg.Wait()
}

// wakeAll makes Run look at all elections, because the session has changed.
func (es *Elections) wakeAll() {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, e := range es.byName {
		es.markDirty(e)
	}
}

func (es *Elections) takeDirty() map[*Election]struct{} {
	es.mu.Lock()
	defer es.mu.Unlock()
	touched := es.dirty
	es.dirty = map[*Election]struct{}{}
	return touched
}

// stopAccepting accepts no further work, and returns all elections.
func (es *Elections) stopAccepting() []*Election {
	es.mu.Lock()
	es.closed = true
	all := slices.Collect(maps.Values(es.byName))
	es.mu.Unlock()
	es.endLife(lifecycle.ErrStopped)
	return all
}

// Close withdraws this node from all elections, each after the functions in its term have returned, and accepts
// no further candidacies. It blocks until that is done. If ctx ends first, it returns ctx's cause. The error matches
// leaderelection.ErrWorkRuns if functions go on after WorkTimeout.
func (es *Elections) Close(ctx context.Context) error {
	var wg sync.WaitGroup
	all := es.stopAccepting()
	errs := make([]error, len(all))
	for i, e := range all {
		wg.Go(func() {
			place := e.endCandidacy(lifecycle.ErrStopped)
			errs[i] = errors.Join(e.awaitRelease(ctx, place), e.overdueError())
		})
	}
	wg.Wait()
	es.wg.Wait() // their context has ended
	return errors.Join(append(errs, es.cfg.Queues.Close(ctx))...)
}
