package cluster

import (
	"context"
	"sync"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/wait"
)

// Elections are named elections: any number of them, all on the node's one session. A node can stand in
// some and only observe others.
//
//	outbox, err := c.Elections().Stand("outbox")
//	err = outbox.Lead(ctx, func(ctx context.Context, t election.Term) error {
//		return publish(ctx, t.Token()) // until ctx ends: the term is over
//	})
//
// Each election is a queue: first come, first served; who leads goes on until it resigns, stops, or its
// session ends. Two things move candidates out of that order, each by its own will: the election.Priority
// that some stand with, and a Transfer that somebody asks for. The cluster's own election is another one:
// its leader plans the shards, and it has a fallback. These have none: where etcd denies them, nobody
// leads, and [Candidate.Err] says why.
type Elections struct{ c *Cluster }

// Elections are the named elections. It is never nil.
func (c *Cluster) Elections() *Elections { return &c.elections }

// Stand makes this node a candidate in the election of that name, from now on, also if it had withdrawn.
// A node that stands can lead at any time, also while nothing runs in Lead: the others then wait for it.
// It does not block. Errors are ErrNotStarted, ErrStopped and election.ErrBadName.
func (es *Elections) Stand(name string, opts ...election.StandOption) (*Candidate, error) {
	p, err := es.c.running()
	if err != nil {
		return nil, err
	}
	e, err := p.work.elections.Stand(name, opts...)
	if err != nil {
		return nil, err
	}
	return &Candidate{e}, nil
}

// Observe follows the election of that name, and does not make this node a candidate. It does not block.
// Errors are ErrNotStarted, ErrStopped and election.ErrBadName.
func (es *Elections) Observe(name string) (*Election, error) {
	p, err := es.c.running()
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

// List reads how the elections stand in which somebody does, also those that this node does not know; more says
// that there are others behind the last. Each is read at one revision, and not all at the same. It blocks until
// etcd has answered, or ctx ends. Errors are ErrNotStarted, ErrStopped, an [UnfinishedError], and etcd's.
func (es *Elections) List(ctx context.Context, q election.Query) (found []election.Standing, more bool, err error) {
	p, err := es.c.running()
	if err != nil {
		return nil, false, err
	}
	return elections.List(ctx, p.client, es.c.keys, q)
}

// Look reads how one election stands, with all its candidates. Errors are election.ErrNoLeader if nobody stands in it,
// election.ErrBadName, ErrNotStarted, ErrStopped, and etcd's.
func (es *Elections) Look(ctx context.Context, name string) (election.Standing, error) {
	p, err := es.c.running()
	if err != nil {
		return election.Standing{}, err
	}
	return elections.Look(ctx, p.client, es.c.keys, name)
}

// Election is what this node knows of one named election, by a handle of the caller's own. All methods
// are safe for concurrent use.
type Election struct {
	e      *elections.Election
	ctx    context.Context // ends when the handle is closed
	cancel context.CancelCauseFunc
	once   sync.Once
}

// Name is the election's.
func (e *Election) Name() string { return e.e.Name() }

// Leader is the leader as far as this node knows: nobody between two leaders, and while this node is cut
// off from etcd and cannot say. It is this node if and only if [Candidate.IsLeader] is true here. Another one that
// has just come first may still wait for a former leader that may not know its lease is gone, before it leads. It
// does not block.
func (e *Election) Leader() election.Leader { return e.e.Leader() }

// Queue are the addresses of the candidates, the leader's first, as far as this node knows.
func (e *Election) Queue() []string { return e.e.Queue() }

// Watch delivers the present leader, and then every change of it; the zero Leader says that there is
// none. A slow receiver misses what was overtaken and always gets the newest. The channel closes when ctx
// ends, or the election is closed or the node stops, never else. Errors are ErrStopped and
// election.ErrClosed.
func (e *Election) Watch(ctx context.Context) (<-chan election.Leader, error) {
	if e.ctx.Err() != nil {
		return nil, context.Cause(e.ctx)
	}
	ctx, stop := wait.Within(ctx, e.ctx)
	context.AfterFunc(ctx, stop) // nothing is left of it then
	out, err := e.e.Watch(ctx)
	if err != nil {
		stop()
	}
	return out, err
}

// WaitForLeader blocks until there is a leader. Errors are ctx's cause, ErrStopped and
// election.ErrClosed.
func (e *Election) WaitForLeader(ctx context.Context) (election.Leader, error) {
	ctx, stop := wait.Within(ctx, e.ctx)
	defer stop()
	return e.e.WaitForLeader(ctx)
}

// Transfer hands leadership over to the candidate at that address: those that wait before it queue again
// at the tail, and the leader gives way when it is next, after its work, as by Resign. Any node may ask
// for it. It blocks until that candidate leads as far as this node knows (then it returns nil, also if it
// did before), it turns out to be impossible, or ctx ends: the request is then taken back. A function in
// Lead must not wait for the end of its own term by it.
//
// Errors match election.ErrNoLeader, ErrNotCandidate, ErrOutsider or ErrPreferred, by what is known here
// and now; ErrNotMoved when another one leads, or ctx or this node's session ended; ErrStopped,
// election.ErrClosed, and what etcd refused.
func (e *Election) Transfer(ctx context.Context, address string) error {
	ctx, stop := wait.Within(ctx, e.ctx)
	defer stop()
	return e.e.Transfer(ctx, address)
}

// RequestResign asks the leader to give way to the next, as by Resign; one that is alone leads again, with
// a new token. It blocks, and fails, as Transfer does.
func (e *Election) RequestResign(ctx context.Context) error {
	ctx, stop := wait.Within(ctx, e.ctx)
	defer stop()
	return e.e.RequestResign(ctx)
}

// Close ends the handle: channels of its Watch close, and what blocks fails with election.ErrClosed. Other
// handles of the same election are not concerned. Closing twice is harmless.
func (e *Election) Close() {
	e.once.Do(func() {
		e.cancel(election.ErrClosed)
		e.e.Unfollow()
	})
}

// Candidate is this node's candidacy in one named election. There is one for each name in a process,
// no matter which code asked for it. All methods are safe for concurrent use.
type Candidate struct{ e *elections.Election }

// Name is the election's.
func (c *Candidate) Name() string { return c.e.Name() }

// Leader is [Election.Leader].
func (c *Candidate) Leader() election.Leader { return c.e.Leader() }

// Queue is [Election.Queue].
func (c *Candidate) Queue() []string { return c.e.Queue() }

// Watch is [Election.Watch].
func (c *Candidate) Watch(ctx context.Context) (<-chan election.Leader, error) { return c.e.Watch(ctx) }

// WaitForLeader is [Election.WaitForLeader].
func (c *Candidate) WaitForLeader(ctx context.Context) (election.Leader, error) {
	return c.e.WaitForLeader(ctx)
}

// Transfer is [Election.Transfer].
func (c *Candidate) Transfer(ctx context.Context, address string) error {
	return c.e.Transfer(ctx, address)
}

// IsLeader reports whether this node leads at this instant, without the network.
func (c *Candidate) IsLeader() bool { return c.e.IsLeader() }

// Term is the term that this node leads by at this instant, or nil.
func (c *Candidate) Term() election.Term {
	if t := c.e.Term(); t != nil {
		return t
	}
	return nil
}

// Lead waits until this node leads and runs fn. fn's context ends with the term, or with ctx; fn must
// return soon after, for a leader that gives way waits for it (up to Config.WorkTimeout) before the next
// one can lead. Lead returns what fn returned; if that is the context's error because the term ended, an
// error that matches election.ErrTermOver. It does not give leadership up when fn returns (Resign does),
// and runs fn once: call it in a loop to serve every term. Where fn did not run, and no later call would,
// the error is election.ErrWithdrawn or ErrStopped; else ctx's cause.
func (c *Candidate) Lead(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	return c.e.Lead(ctx, fn)
}

// AsLeader runs fn at once if this node leads: for a request that only the leader may answer. It is
// [Cluster.AsLeader] for this election: a leader that gives way waits for fn, whose context goes on
// meanwhile, and the term's Txn commits. Where fn did not run the error is election.ErrNotLeader.
func (c *Candidate) AsLeader(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	return c.e.AsLeader(ctx, fn)
}

// Resign gives leadership up: the term ends, its functions are waited for, up to Config.WorkTimeout, and
// this node queues again at the tail. It blocks until the place is given up, or ctx ends; it is then given
// up as soon as etcd answers. The error is election.ErrNotLeader if this node does not lead, ctx's cause,
// or what etcd refused: nobody else leads then until etcd allows the place to be given up, which it is
// asked for again every third of a TTL, or the session ends.
func (c *Candidate) Resign(ctx context.Context) error { return c.e.Resign(ctx) }

// Withdraw ends the candidacy: a term ends as by Resign, and this node stands no more, until somebody asks
// for it with Stand; it goes on following the election. It blocks as Resign does.
func (c *Candidate) Withdraw(ctx context.Context) error { return c.e.Withdraw(ctx) }

// Close withdraws, and stops following the election unless a handle of Observe does: Watch's channels
// close, and what blocks fails with election.ErrClosed. It is for everyone in this process who has the
// candidacy. If Stand is called again while Close waits, the election stays as that call wants it. It
// blocks as Resign does; when that fails, nothing is closed, and this node has withdrawn.
func (c *Candidate) Close(ctx context.Context) error { return c.e.Close(ctx) }

// Err is what etcd refused the last time this node was to stand; nil if it has led since.
func (c *Candidate) Err() error { return c.e.Err() }

// WatchErr delivers what Err returns, and then every change of it, as Watch does of the leader.
func (c *Candidate) WatchErr(ctx context.Context) (<-chan error, error) { return c.e.WatchErr(ctx) }
