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

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// Config is what elections need. Queues and Address are required.
type Config struct {
	// Queues are those at state.Keys.Elections, of an engine that runs for as long as the elections do. The terms'
	// transactions are made with its client.
	Queues *leasequeue.Queues
	// Address is what others see when this node leads.
	Address string
	// WorkTimeout bounds how long a leader that gives way waits for the functions in Lead to
	// return after their context ended. Default 5 s.
	WorkTimeout time.Duration
	// PreferAfter is how long a candidate of a higher priority stands before the leadership is
	// given to it: one that comes and goes all the time moves it no oftener. Default 5 s.
	PreferAfter time.Duration
	// Final reports whether what etcd refuses a candidate is the end of its candidacy: Lead returns
	// the error, and the one that asks for the election again stands anew. Default: none is, it is tried
	// again after about a second, and logged.
	Final func(error) bool
	// Logger gets one line per event an operator cares about. Default: none.
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
	if c.Final == nil {
		c.Final = func(error) bool { return false }
	}
	return c
}

// Validate reports what is wrong with the configuration.
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

// Elections are the named elections that this process takes part in. All methods are safe for
// concurrent use.
type Elections struct {
	cfg Config

	life context.Context // ends when closed is set
	end  context.CancelCauseFunc
	wg   sync.WaitGroup // channels that are fed; nothing is added once closed is set
	wake chan struct{}  // something is dirty

	// mu is the only lock of the package. Nothing is called with it held that takes another one: what the
	// queues notify takes this one, and would wait for itself.
	mu     sync.Mutex
	closed bool
	byName map[string]*Election
	dirty  map[*Election]struct{} // to be looked at
}

// New checks the configuration; [Elections.Run] makes it live.
func New(cfg Config) (*Elections, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	es := &Elections{cfg: cfg, byName: map[string]*Election{},
		dirty: map[*Election]struct{}{}, wake: make(chan struct{}, 1)}
	es.life, es.end = context.WithCancelCause(context.Background())
	return es, nil
}

// Stand makes this node a candidate in the election of that name from now on, also if it had
// withdrawn or was refused. The same name gives the same election. It is followed until it is
// closed, or the node stops. It does not block. Errors are election.ErrBadName and ErrStopped.
func (es *Elections) Stand(name string, opts ...election.StandOption) (*Election, error) {
	var o election.StandOptions
	for _, opt := range opts {
		opt(&o)
	}
	return es.follow(name, func(e *Election) { e.stand(o) })
}

// Observe is Stand of a node that only follows the election. Where this node stands in it
// already, it goes on to.
func (es *Elections) Observe(name string) (*Election, error) {
	return es.follow(name, (*Election).observe)
}

func (es *Elections) follow(name string, want func(*Election)) (*Election, error) {
	if err := state.CheckName("election", name); err != nil {
		return nil, err
	}
	if e, err := es.want(name, nil, want); e != nil || err != nil {
		return e, err
	}
	made := &Election{all: es, name: name}
	made.notice = made.touch
	made.follower = es.cfg.Queues.Follow(name, made.notice)
	e, err := es.want(name, made, want)
	if e != made { // another caller was faster
		made.follower.Stop()
	}
	return e, err
}

// want is the election of that name as somebody wants it, or made if there is none.
func (es *Elections) want(name string, made *Election, want func(*Election)) (*Election, error) {
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
	es.mark(e)
	return e, nil
}

// forget drops an election unless somebody has asked for it again.
func (es *Elections) forget(e *Election) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	if e.wanted || e.observers > 0 || es.byName[e.name] != e {
		return false
	}
	delete(es.byName, e.name)
	return true
}

// start runs f until it returns, which Close and Run wait for. It does not when all is closed.
func (es *Elections) start(f func()) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.closed {
		return false
	}
	es.wg.Go(f)
	return true
}

// touch has the election looked at soon.
func (es *Elections) touch(e *Election) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.mark(e)
}

// mark is touch with the lock held.
func (es *Elections) mark(e *Election) {
	es.dirty[e] = struct{}{}
	select {
	case es.wake <- struct{}{}:
	default:
	}
}

// Run serves, beside the queues' engine, until ctx ends, and returns when all it started
// has ended.
func (es *Elections) Run(ctx context.Context) {
	changed := es.cfg.Queues.Changed()
	for ctx.Err() == nil {
		for e := range es.touched() {
			e.look()
		}
		select {
		case <-es.wake:
		case <-changed:
			changed = es.cfg.Queues.Changed() // only now, so that none is missed
			es.touchAll()
		case <-ctx.Done():
		}
	}
	for _, e := range es.shut() {
		_ = e.withdraw(lifecycle.ErrStopped)
		e.look()
		e.cutOff()
	}
	es.wg.Wait()
}

// touchAll: there is another session, or none.
func (es *Elections) touchAll() {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, e := range es.byName {
		es.mark(e)
	}
}

func (es *Elections) touched() map[*Election]struct{} {
	es.mu.Lock()
	defer es.mu.Unlock()
	touched := es.dirty
	es.dirty = map[*Election]struct{}{}
	return touched
}

// shut lets nothing begin any more, and returns all elections.
func (es *Elections) shut() []*Election {
	es.mu.Lock()
	es.closed = true
	all := slices.Collect(maps.Values(es.byName))
	es.mu.Unlock()
	es.end(lifecycle.ErrStopped)
	return all
}

// Close has this node withdraw from every election, each after the functions in its term have
// returned, and stand in none any more. It blocks until that is done, or ctx ends, with its
// cause for an error.
func (es *Elections) Close(ctx context.Context) error {
	var wg sync.WaitGroup
	all := es.shut()
	errs := make([]error, len(all))
	for i, e := range all {
		wg.Go(func() { errs[i] = e.leave(ctx, lifecycle.ErrStopped) })
	}
	wg.Wait()
	es.wg.Wait() // its context has ended
	return errors.Join(append(errs, es.cfg.Queues.Close(ctx))...)
}
