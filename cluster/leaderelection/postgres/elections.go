package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Elections holds the elections that this process takes part in. All methods are safe for concurrent use.
type Elections struct {
	keeper  *claims.Keeper
	log     hclog.Logger
	timeout time.Duration

	mu         sync.Mutex
	candidates map[string]*Candidate
}

// Option configures [New].
type Option func(*Elections)

// WorkTimeout sets how long a leader that gives way waits for the functions in Lead to return after their context has
// ended. Default 5 s.
func WorkTimeout(d time.Duration) Option { return func(es *Elections) { es.timeout = d } }

// Logger sets the logger, which gets one line when a term begins or ends. Default: none.
func Logger(l hclog.Logger) Option { return func(es *Elections) { es.log = l } }

// New returns the elections of a session. It sends no request.
func New(s *pgsession.Session, opts ...Option) *Elections {
	es := &Elections{keeper: s.Keeper(), timeout: 5 * time.Second, candidates: map[string]*Candidate{}}
	for _, opt := range opts {
		opt(es)
	}
	es.log = logqueue.New(es.log)
	return es
}

// prefix sets the names of elections apart from those of locks. The tables' functions know it.
const prefix = "election/"

// Stand makes this process a candidate in the named election, also if it had withdrawn before. The same name returns
// the same candidate until that has withdrawn. A candidate can become the leader at any time, even while no function
// runs in Lead. Stand does not block. The error matches leaderelection.ErrBadName or ErrStopped, or reports an option:
// there are no priorities.
func (es *Elections) Stand(name string, opts ...leaderelection.StandOption) (*Candidate, error) {
	var o leaderelection.StandOptions
	for _, opt := range opts {
		opt(&o)
	}
	if o.Priority != nil {
		return nil, fmt.Errorf("election %q: elections in PostgreSQL have no priorities; leave the option out", name)
	}
	if err := state.CheckName("election", name); err != nil {
		return nil, err
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	if c := es.candidates[name]; c != nil && c.standing.Err() == nil {
		return c, nil
	}
	c := newCandidate(es, name)
	if !es.keeper.Go(c.run) {
		_ = c.Election.Close()
		return nil, leaderelection.ErrStopped
	}
	es.candidates[name] = c
	return c, nil
}

// dropCandidate forgets a candidate that has withdrawn.
func (es *Elections) dropCandidate(c *Candidate) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.candidates[c.name] == c {
		delete(es.candidates, c.name)
	}
}

// Observe follows the named election without making this process a candidate. Close the observer. The error matches
// leaderelection.ErrBadName or ErrStopped.
func (es *Elections) Observe(name string) (*Election, error) {
	if err := state.CheckName("election", name); err != nil {
		return nil, err
	}
	if es.keeper.Context().Err() != nil {
		return nil, leaderelection.ErrStopped
	}
	return newElection(es, name, func() *term { return nil }), nil
}

// Election is a view of one election. All methods are safe for concurrent use.
type Election struct {
	es   *Elections
	name string
	term func() *term // by which this process leads at this instant, or nil

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	subs map[wait.Signal]bool
	wg   sync.WaitGroup
	f    *claims.Follower
}

func newElection(es *Elections, name string, own func() *term) *Election {
	e := &Election{es: es, name: name, term: own, subs: map[wait.Signal]bool{}, f: es.keeper.Follow(prefix + name)}
	e.ctx, e.cancel = context.WithCancelCause(es.keeper.Context())
	e.wg.Go(func() { wait.Each(e.ctx, e.f.C, e.notify) })
	return e
}

// Close ends the view. The channels of its Watch close, as they do when the session is closed. Closing twice is
// harmless. It always returns nil.
func (e *Election) Close() error {
	e.mu.Lock() // of watchValue, which starts no goroutine from now on
	e.cancel(fmt.Errorf("election %q: %w", e.name, leaderelection.ErrClosed))
	e.mu.Unlock()
	e.wg.Wait()
	e.mu.Lock()
	f := e.f
	e.f = nil
	e.mu.Unlock()
	if f != nil {
		f.Close()
	}
	return nil
}

// notify wakes those that wait for a change.
func (e *Election) notify() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.subs {
		s.Send()
	}
}

func (e *Election) subscribe() (_ wait.Signal, stop func()) {
	s := wait.NewSignal()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subs[s] = true
	return s, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.subs, s)
	}
}

// Name returns the name of the election.
func (e *Election) Name() string { return e.name }

// entries returns the queue, nil while this process has no valid session.
func (e *Election) entries() []claims.Entry {
	e.mu.Lock()
	f := e.f
	e.mu.Unlock()
	if f == nil || !e.es.keeper.Valid() {
		return nil
	}
	return f.Entries()
}

// Leader returns the leader as far as this process knows: the zero Leader between two leaders, and while this process
// has no valid session. It returns this process if and only if it leads. It does not block.
func (e *Election) Leader() leaderelection.Leader {
	if t := e.term(); t != nil {
		return leaderelection.Leader{Address: e.es.keeper.Owner(), Token: t.Token(), Mode: leaderelection.ModeElection,
			Member: true, Lease: t.claim.SessionID()}
	}
	entries := e.entries()
	if len(entries) > 0 && entries[0].Session == e.es.keeper.SessionID() {
		return leaderelection.Leader{} // the own claim stands for a moment before or after the term
	}
	return leaderOf(entries)
}

// Queue returns the addresses of the candidates, the leader's first, as far as this process knows.
func (e *Election) Queue() []string {
	entries := e.entries()
	out := make([]string, len(entries))
	for i, x := range entries {
		out[i] = x.Owner
	}
	return out
}

// WaitForLeader blocks until there is a leader. Errors are ctx's cause and leaderelection.ErrClosed.
func (e *Election) WaitForLeader(ctx context.Context) (l leaderelection.Leader, err error) {
	ctx, stop := wait.MergeContexts(ctx, e.ctx)
	defer stop()
	changed, end := e.subscribe()
	defer end()
	err = wait.Until(ctx, changed, func() bool { l = e.Leader(); return l.Address != "" })
	return l, err
}

// Watch delivers the current leader, then every change; the zero Leader means that there is none. A slow receiver skips
// intermediate values and always gets the newest. The channel closes when ctx ends or the view is closed. The error
// matches leaderelection.ErrClosed.
func (e *Election) Watch(ctx context.Context) (<-chan leaderelection.Leader, error) {
	return watchValue(ctx, e, e.Leader, func(a, b leaderelection.Leader) bool { return a == b })
}

// watchValue delivers the result of now, then changes, until ctx ends or the view is closed.
func watchValue[T any](ctx context.Context, e *Election, now func() T, equal func(a, b T) bool) (<-chan T, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return nil, context.Cause(e.ctx)
	}
	out := make(chan T)
	e.wg.Go(func() {
		defer close(out)
		ctx, stop := wait.MergeContexts(ctx, e.ctx)
		defer stop()
		changed, end := e.subscribe()
		defer end()
		wait.ForwardFunc(ctx, out, changed, now, equal)
	})
	return out, nil
}
