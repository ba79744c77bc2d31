package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/lifecycle/termscope"
	"github.com/goverse/goverse/internal/state"
)

// Candidate is this node's candidacy in one named election. A process has one for each name, shared by all of its
// callers. All methods are safe for concurrent use. If Stand was called before Start, there is no leader until Start
// has returned, and methods return ErrNotStarted.
type Candidate struct {
	c    *Cluster
	name string
	e    atomic.Pointer[elections.Election] // nil before Start
}

// earlyCandidacies holds the candidacies that were requested before Start.
type earlyCandidacies struct {
	mu       sync.Mutex
	known    map[string]*Candidate // by name, also those that have withdrawn
	requests []earlyRequest
}

type earlyRequest struct {
	candidate *Candidate
	opts      []leaderelection.StandOption
}

// addRequest remembers a request. The lock is held, and the cluster is not started.
func (e *earlyCandidacies) addRequest(c *Cluster, name string, opts []leaderelection.StandOption) (*Candidate, error) {
	if err := state.CheckName("election", name); err != nil {
		return nil, err
	}
	candidate := e.known[name]
	if candidate == nil {
		candidate = &Candidate{c: c, name: name}
		if e.known == nil {
			e.known = map[string]*Candidate{}
		}
		e.known[name] = candidate
	}
	e.requests = append(e.requests, earlyRequest{candidate, opts})
	return candidate, nil
}

// dropRequests drops the requests for a candidate. It reports false, and does nothing, once the node runs.
func (e *earlyCandidacies) dropRequests(c *Candidate) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known[c.name] != c {
		return false
	}
	e.requests = slices.DeleteFunc(e.requests, func(r earlyRequest) bool { return r.candidate == c })
	return true
}

// standAll makes the candidates stand that were requested before, and publishes the parts of the running node.
func (e *earlyCandidacies) standAll(c *Cluster, p *nodeParts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.requests {
		if election, err := p.work.elections.Stand(r.candidate.name, r.opts...); err == nil { // else the node stops
			r.candidate.e.Store(election)
		}
	}
	e.known, e.requests = nil, nil
	c.parts.Store(p)
}

// runningElection returns the candidacy of a node that runs. Errors are ErrNotStarted, ErrStopped and
// leaderelection.ErrWithdrawn.
func (c *Candidate) runningElection() (*elections.Election, error) {
	if e := c.e.Load(); e != nil {
		return e, nil
	}
	if _, err := c.c.runningParts(); err != nil {
		return nil, err
	}
	if e := c.e.Load(); e != nil { // Start has returned meanwhile
		return e, nil
	}
	return nil, leaderelection.ErrWithdrawn // before Start
}

// Name returns the name of the election.
func (c *Candidate) Name() string { return c.name }

// Leader returns the current leader; see [Election.Leader].
func (c *Candidate) Leader() leaderelection.Leader {
	if e := c.e.Load(); e != nil {
		return e.Leader()
	}
	return leaderelection.Leader{}
}

// Queue returns the addresses of the candidates; see [Election.Queue].
func (c *Candidate) Queue() []string {
	if e := c.e.Load(); e != nil {
		return e.Queue()
	}
	return nil
}

// Watch delivers the current leader and its changes; see [Election.Watch].
func (c *Candidate) Watch(ctx context.Context) (<-chan leaderelection.Leader, error) {
	e, err := c.runningElection()
	if err != nil {
		return nil, err
	}
	return e.Watch(ctx)
}

// WaitForLeader blocks until there is a leader; see [Election.WaitForLeader].
func (c *Candidate) WaitForLeader(ctx context.Context) (leaderelection.Leader, error) {
	e, err := c.runningElection()
	if err != nil {
		return leaderelection.Leader{}, err
	}
	return e.WaitForLeader(ctx)
}

// Transfer hands leadership over to another candidate; see [Election.Transfer].
func (c *Candidate) Transfer(ctx context.Context, address string) error {
	e, err := c.runningElection()
	if err != nil {
		return err
	}
	return e.Transfer(ctx, address)
}

// IsLeader reports whether this node leads at this instant. It does not use the network.
func (c *Candidate) IsLeader() bool {
	e := c.e.Load()
	return e != nil && e.IsLeader()
}

// Term returns the term by which this node leads the election. It returns false if the node does not lead at this
// instant.
func (c *Candidate) Term() (leaderelection.Term, bool) {
	if e := c.e.Load(); e != nil {
		if t := e.Term(); t != nil {
			return t, true
		}
	}
	return nil, false
}

// Lead waits until this node leads, then runs fn once. fn's context ends with the term, or with ctx. fn must
// return soon after that, because a leader that gives way waits for it (up to Config.WorkTimeout) before the next
// one can lead. Lead returns fn's error; if that is the context's error because the term ended, it returns an
// error that matches leaderelection.ErrTermOver. Leadership does not end when fn returns; use Resign for that. LeadEach
// serves every term. If fn did not run, the error is leaderelection.ErrWithdrawn or ErrStopped if no later call would
// run it either, and ErrNotStarted or ctx's cause otherwise.
func (c *Candidate) Lead(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	e, err := c.runningElection()
	if err != nil {
		return err
	}
	return e.Lead(ctx, fn)
}

// LeadEach is [Cluster.LeadEach] for this election. The error is leaderelection.ErrWithdrawn if this node withdraws.
func (c *Candidate) LeadEach(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	return termscope.LeadEach(ctx, c.Lead, fn)
}

// AsLeader runs fn at once if this node leads. Use it for requests that only the leader may answer. It does for
// this election what [Cluster.AsLeader] does for the cluster's: a leader that gives way waits for fn, and until
// then fn's context goes on and the term's Txn commits. If fn did not run, the error is leaderelection.ErrNotLeader or
// ErrNotStarted.
func (c *Candidate) AsLeader(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	e, err := c.runningElection()
	if err != nil {
		return err
	}
	return e.AsLeader(ctx, fn)
}

// Resign gives up leadership. It ends the term, waits for its functions up to Config.WorkTimeout, and queues this
// node again at the tail. It blocks until the node has given up its place in the queue, or ctx ends; in the
// latter case the place is given up as soon as etcd answers. Errors are leaderelection.ErrNotLeader if this node does
// not lead, ErrNotStarted, ctx's cause, and that of a request that etcd refused. In the last case no other node
// leads until etcd accepts the deletion, which is retried every third of a TTL, or the session ends.
func (c *Candidate) Resign(ctx context.Context) error {
	e, err := c.runningElection()
	if err != nil {
		return err
	}
	return e.Resign(ctx)
}

// Withdraw ends the candidacy. A running term ends as with Resign, and this node is no candidate until Stand is
// called again. It still follows the election. Withdraw blocks like Resign. Before Start it only cancels the
// request.
func (c *Candidate) Withdraw(ctx context.Context) error {
	if c.c.early.dropRequests(c) {
		return nil
	}
	e, err := c.runningElection()
	if err != nil {
		return err
	}
	return e.Withdraw(ctx)
}

// Close withdraws, and stops following the election unless a handle of Observe still does. The channels of Watch
// close, and blocked calls fail with leaderelection.ErrClosed. This affects all callers in this process that have the
// candidacy. If Stand is called while Close waits, the election stays as that call requests. Close blocks like
// Resign; if it fails, this node has withdrawn and nothing is closed. Before Start it only cancels the request.
func (c *Candidate) Close(ctx context.Context) error {
	if c.c.early.dropRequests(c) {
		return nil
	}
	e, err := c.runningElection()
	if err != nil {
		return err
	}
	return e.Close(ctx)
}

// Err returns the error with which etcd last refused this node's candidacy. It returns nil if the node has led
// since, and before Start.
func (c *Candidate) Err() error {
	if e := c.e.Load(); e != nil {
		return e.Err()
	}
	return nil
}

// WatchErr delivers the current value of Err, then every change, as Watch does for the leader.
func (c *Candidate) WatchErr(ctx context.Context) (<-chan error, error) {
	e, err := c.runningElection()
	if err != nil {
		return nil, err
	}
	return e.WatchErr(ctx)
}
