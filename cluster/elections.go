package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/wait"
)

// Elections gives access to named elections: any number of them, all on the node's one session. A node can be a
// candidate in some and only observe others.
//
//	outbox, err := c.Elections().Stand("outbox")
//	err = outbox.LeadEach(ctx, func(ctx context.Context, t leaderelection.Term) error {
//		return publish(ctx, t.Token()) // until ctx ends: the term is over
//	})
//
// Each election is a queue, first come, first served. A leader leads until it resigns, stops, or its session
// ends. Only a leaderelection.Priority, with which some candidates stand, and a requested Transfer move candidates out
// of that order; each candidate gives way by itself. The cluster's own election is separate: its leader plans the
// shards, and it has a fallback. Named elections have no fallback: while etcd denies access to them there is no
// leader, and [Candidate.Err] returns the reason.
type Elections struct{ c *Cluster }

// Elections returns the handle for named elections. It is never nil.
func (c *Cluster) Elections() *Elections { return &c.elections }

// Stand makes this node a candidate in the named election, also if it had withdrawn before. A candidate can
// become the leader at any time, even while no function runs in Lead; the other candidates then wait for it. Before
// Start, Stand remembers the request, and the node becomes a candidate once it runs. Stand does not block. Errors
// are ErrStopped and leaderelection.ErrBadName.
func (es *Elections) Stand(name string, opts ...leaderelection.StandOption) (*Candidate, error) {
	early := &es.c.early
	early.mu.Lock()
	p, err := es.c.runningParts()
	if errors.Is(err, ErrNotStarted) {
		defer early.mu.Unlock()
		return early.addRequest(es.c, name, opts)
	}
	early.mu.Unlock()
	if err != nil {
		return nil, err
	}
	e, err := p.work.elections.Stand(name, opts...)
	if err != nil {
		return nil, err
	}
	c := &Candidate{c: es.c, name: name}
	c.e.Store(e)
	return c, nil
}

// Observe follows the named election without making this node a candidate. It does not block. Errors are
// ErrNotStarted, ErrStopped and leaderelection.ErrBadName.
func (es *Elections) Observe(name string) (*Election, error) {
	p, err := es.c.runningParts()
	if err != nil {
		return nil, err
	}
	e, err := p.work.elections.Observe(name)
	if err != nil {
		return nil, err
	}
	h := &Election{e: e}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	return h, nil
}

// List reads the states of all elections that have candidates, including those that this node does not follow;
// more reports whether others follow the last one. Each is read at one revision, but not all at the same one.
// List blocks until etcd has answered, or ctx ends. Errors are ErrNotStarted, ErrStopped, an [UnfinishedError],
// and etcd's.
func (es *Elections) List(ctx context.Context, q leaderelection.Query) (found []leaderelection.Standing, more bool,
	err error) {
	p, err := es.c.runningParts()
	if err != nil {
		return nil, false, err
	}
	return elections.List(ctx, p.client, es.c.keys, q)
}

// Look reads the state of one election, with all its candidates. Errors are leaderelection.ErrNoLeader if it has none,
// leaderelection.ErrBadName, ErrNotStarted, ErrStopped, and etcd's.
func (es *Elections) Look(ctx context.Context, name string) (leaderelection.Standing, error) {
	p, err := es.c.runningParts()
	if err != nil {
		return leaderelection.Standing{}, err
	}
	return elections.ReadState(ctx, p.client, es.c.keys, name)
}

// Election is the caller's own handle to this node's view of one named election. All methods are safe for
// concurrent use.
type Election struct {
	e      *elections.Election
	ctx    context.Context // ends when the handle is closed
	cancel context.CancelCauseFunc
	once   sync.Once
}

// Name returns the name of the election.
func (e *Election) Name() string { return e.e.Name() }

// Leader returns the leader as far as this node knows. It returns the zero Leader between two leaders, and while
// this node is cut off from etcd. It returns this node if and only if [Candidate.IsLeader] is true here. Another
// node that has just become first may not lead yet, while it waits for a former leader that may not have noticed
// the loss of its lease. Leader does not block.
func (e *Election) Leader() leaderelection.Leader { return e.e.Leader() }

// Queue returns the addresses of the candidates, the leader's first, as far as this node knows.
func (e *Election) Queue() []string { return e.e.Queue() }

// Watch returns a channel that delivers the current leader, then every change; the zero Leader means that there
// is none. A slow receiver skips intermediate values and always gets the newest. The channel closes when ctx
// ends, the election is closed, or the node stops, and never otherwise. Errors are ErrStopped and
// leaderelection.ErrClosed.
func (e *Election) Watch(ctx context.Context) (<-chan leaderelection.Leader, error) {
	if e.ctx.Err() != nil {
		return nil, context.Cause(e.ctx)
	}
	ctx, stop := wait.MergeContexts(ctx, e.ctx)
	context.AfterFunc(ctx, stop) // releases all of it when ctx ends
	out, err := e.e.Watch(ctx)
	if err != nil {
		stop()
	}
	return out, err
}

// WaitForLeader blocks until there is a leader. Errors are ctx's cause, ErrStopped and leaderelection.ErrClosed.
func (e *Election) WaitForLeader(ctx context.Context) (leaderelection.Leader, error) {
	ctx, stop := wait.MergeContexts(ctx, e.ctx)
	defer stop()
	return e.e.WaitForLeader(ctx)
}

// Transfer hands leadership over to the candidate at that address. The candidates before it queue again at the
// tail. When the target is next, the leader ends its term as Resign does. Any node may call it. Transfer blocks
// until the target leads as far as this node knows, the transfer turns out to be impossible, or ctx ends. In the
// last case the request is withdrawn. It returns nil if the target leads, also if it did before. A function in
// Lead must not call Transfer to end its own term, because the term waits for that function.
//
// Errors match leaderelection.ErrNoLeader, ErrNotCandidate, ErrOutsider or ErrPreferred, according to this node's
// current view; ErrNotMoved if another candidate leads, or ctx or this node's session ended; ErrStopped;
// leaderelection.ErrClosed; and the error of a request that etcd refused.
func (e *Election) Transfer(ctx context.Context, address string) error {
	ctx, stop := wait.MergeContexts(ctx, e.ctx)
	defer stop()
	return e.e.Transfer(ctx, address)
}

// RequestResign asks the leader to give way to the next candidate, as Resign does. A leader without other
// candidates leads again, with a new token. RequestResign blocks, and fails, like Transfer.
func (e *Election) RequestResign(ctx context.Context) error {
	ctx, stop := wait.MergeContexts(ctx, e.ctx)
	defer stop()
	return e.e.RequestResign(ctx)
}

// Close closes the handle. The channels of its Watch close, and blocked calls fail with leaderelection.ErrClosed. Other
// handles of the same election are not affected. Closing twice is harmless. Close does not block, and always returns
// nil.
func (e *Election) Close() error {
	e.once.Do(func() {
		e.cancel(leaderelection.ErrClosed)
		e.e.Unobserve()
	})
	return nil
}
