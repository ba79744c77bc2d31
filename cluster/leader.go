package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// GetLeaderNode returns the leader's advertise address. It returns "" if there is no leader, while this node is
// cut off from etcd, before Start has returned and after Stop. It does not block.
func (c *Cluster) GetLeaderNode() string { return c.consensus.GetLeaderNode() }

// IsLeader reports whether this node leads at this instant. It takes no lock, allocates nothing and does not use
// the network. It is false before Start has returned and after Stop.
func (c *Cluster) IsLeader() bool { return c.consensus.IsLeader() }

// Leader returns the current leader. It returns the zero Leader if there is none, while this node is cut off from
// etcd, before Start has returned and after Stop. It does not block.
func (c *Cluster) Leader() leaderelection.Leader { return c.consensus.Leader() }

// Term returns this node's current term. It returns false if this node does not lead at this instant.
func (c *Cluster) Term() (leaderelection.Term, bool) { return c.consensus.Term() }

// WatchLeader returns a channel that delivers the current leader, then every change; the zero Leader means that
// there is none. A slow receiver skips intermediate values and always gets the newest. The channel closes when
// ctx ends or the node stops, and never otherwise. Errors are ErrNotStarted and ErrStopped.
func (c *Cluster) WatchLeader(ctx context.Context) (<-chan leaderelection.Leader, error) {
	return c.consensus.WatchLeader(ctx)
}

// WaitForLeader blocks until there is a leader. Errors are ctx's cause, ErrNotStarted and ErrStopped.
func (c *Cluster) WaitForLeader(ctx context.Context) (leaderelection.Leader, error) {
	return c.consensus.WaitForLeader(ctx)
}

// Lead waits until this node leads, then runs fn once. fn's context ends with the term, or with ctx. fn must
// return soon after that, because a leader that gives way waits for it (up to Config.WorkTimeout) before the next
// one can lead. Lead returns fn's error; if that is the context's error because the term ended, it returns an
// error that matches leaderelection.ErrTermOver. Leadership does not end when fn returns; use Resign for that. LeadEach
// serves every term. A node can lead without any function in Lead.
//
// If fn did not run, the error is ctx's cause, ErrNotStarted or ErrStopped.
func (c *Cluster) Lead(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	p, err := c.runningParts()
	if err != nil {
		return err
	}
	return p.Consensus.Election().Lead(ctx, fn)
}

// LeadEach runs fn once in every term of this node, until ctx ends. fn's context ends with the term, or with ctx,
// and fn must return soon after, as in Lead. If fn returns nil before, it is not called again in this term. That
// the term is over is not an error of LeadEach, whether the context tells fn or a transaction does.
//
// LeadEach returns ctx's cause when ctx has ended, and at once any other error that fn returns; this node goes on to
// lead then. Otherwise the error is ErrNotStarted or ErrStopped.
func (c *Cluster) LeadEach(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	p, err := c.runningParts()
	if err != nil {
		return err
	}
	return p.Consensus.Election().LeadEach(ctx, fn)
}

// AsLeader runs fn at once if this node leads. Use it for requests that only the leader may answer. Like a
// function in Lead, fn is work of the term, but a handover does not interrupt it: a leader that gives way
// (Resign, Transfer, Stop) waits for fn, up to Config.WorkTimeout, before another node can lead. Until then fn's
// context goes on and the term's Txn commits, although IsLeader is already false. The context ends with ctx; with
// the session, including its suspension and its deadline; when the leading key is lost; and when WorkTimeout has
// passed. AsLeader returns fn's error; if that is the context's error because the term ended, it returns an error
// that matches leaderelection.ErrTermOver.
//
// If fn did not run, the error is leaderelection.ErrNotLeader, ErrNotStarted or ErrStopped. AsLeader itself does not
// block. fn must not wait for this node to resign, transfer or stop.
func (c *Cluster) AsLeader(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error {
	p, err := c.runningParts()
	if err != nil {
		return err
	}
	return p.Consensus.Election().AsLeader(ctx, fn)
}

// Resign gives up leadership. It ends the term's context and waits for the term's work, up to Config.WorkTimeout,
// before it updates etcd; the node then queues again at the tail. Resign blocks until etcd has confirmed that,
// the session is gone, or ctx ends; in the last case the resignation goes on. Errors are leaderelection.ErrNotLeader,
// ctx's cause, ErrNotStarted and ErrStopped.
func (c *Cluster) Resign(ctx context.Context) error {
	p, err := c.runningParts()
	if err != nil {
		return err
	}
	return p.Consensus.Election().Resign(ctx)
}

// Transfer hands leadership over to the member at address, which must be a candidate. The candidates before it
// queue again at the tail. When the target is next, the leader resigns. Any node may call it. Transfer blocks
// until the target leads, the transfer turns out to be impossible, or ctx ends; in the last case the request is
// withdrawn. Errors match leaderelection.ErrNoLeader, ErrNotMember, ErrNotCandidate, ErrOutsider, ErrFallback or
// ErrNotMoved of that package, ErrNotStarted or ErrStopped.
func (c *Cluster) Transfer(ctx context.Context, address string) error {
	p, err := c.runningParts()
	if err != nil {
		return err
	}
	return p.Consensus.Election().Transfer(ctx, address)
}

// RequestResign asks the leader to give way to the next candidate, as Resign does. A leader without other
// candidates leads again, with a new token. Any node may call it. RequestResign blocks, and fails, like Transfer.
func (c *Cluster) RequestResign(ctx context.Context) error {
	p, err := c.runningParts()
	if err != nil {
		return err
	}
	return p.Consensus.Election().RequestResign(ctx)
}

// ConsensusManager is this node's view of what the cluster agrees on; see package consensusmanager.
type ConsensusManager = consensusmanager.ConsensusManager

// GetConsensusManager returns this node's view of what the cluster agrees on: the leader, the members and the owners of
// the shards. It is never nil. Before Start has returned and after Stop there is no leader.
func (c *Cluster) GetConsensusManager() *ConsensusManager { return c.consensus }
