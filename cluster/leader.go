package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/election"
)

// GetLeaderNode is the leader's advertise address; "" when there is none, while this node is cut
// off from etcd and cannot say, before Start has returned and after Stop. It does not block.
func (c *Cluster) GetLeaderNode() string { return c.Leader().Address }

// IsLeader reports whether this node leads at this instant: no lock, no allocation, no network.
// It is false before Start has returned and after Stop.
func (c *Cluster) IsLeader() bool {
	p := c.parts.Load()
	return p != nil && p.manager.Election().IsLeader()
}

// Leader is the present leader; the zero Leader when there is none, while this node is cut off
// from etcd and cannot say, before Start has returned and after Stop. It does not block.
func (c *Cluster) Leader() election.Leader {
	p := c.parts.Load()
	if p == nil {
		return election.Leader{}
	}
	return p.manager.Election().Leader()
}

// Term is the term that this node leads by at this instant, or nil.
func (c *Cluster) Term() election.Term {
	p := c.parts.Load()
	if p == nil {
		return nil
	}
	if t := p.manager.Election().Term(); t != nil {
		return t
	}
	return nil
}

// WatchLeader delivers the present leader, and then every change of it; the zero Leader says that
// there is none. A slow receiver misses what was overtaken and always gets the newest. The channel
// closes when ctx ends or the node stops, never else. Errors are ErrNotStarted and ErrStopped.
func (c *Cluster) WatchLeader(ctx context.Context) (<-chan election.Leader, error) {
	p, err := c.running()
	if err != nil {
		return nil, err
	}
	return p.manager.Election().Watch(ctx)
}

// WaitForLeader blocks until there is a leader. Errors are ctx's cause, ErrNotStarted and
// ErrStopped.
func (c *Cluster) WaitForLeader(ctx context.Context) (election.Leader, error) {
	p, err := c.running()
	if err != nil {
		return election.Leader{}, err
	}
	return p.manager.Election().WaitForLeader(ctx)
}

// Lead waits until this node leads and runs fn. fn's context ends with the term, or with ctx; fn
// must return soon after, for a leader that gives way waits for it (up to Config.WorkTimeout)
// before the next one can lead. Lead returns what fn returned; if that is the context's error
// because the term ended, an error that matches election.ErrTermOver. It does not give leadership
// up when fn returns (Resign does), and runs fn once: call it in a loop to serve every term, until
// ctx ends or the error is ErrStopped. A node leads whether or not anything runs in Lead.
//
// Where fn did not run the error is ctx's cause, ErrNotStarted or ErrStopped.
func (c *Cluster) Lead(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().Lead(ctx, fn)
}

// AsLeader runs fn at once if this node leads: for a request that only the leader may answer. It is work
// of the term, as with Lead, but is not broken off: a leader that gives way (Resign, Transfer, Stop) waits
// for it, up to Config.WorkTimeout, before another node can lead, and until then fn's context goes on and
// the term's Txn commits, while IsLeader is false already. The context ends with ctx, with the session,
// which includes its suspension and its deadline, when the leading key is lost, and when WorkTimeout has
// passed. AsLeader returns what fn returned; if that is the context's error because the term ended, an
// error that matches election.ErrTermOver.
//
// Where fn did not run the error is election.ErrNotLeader, ErrNotStarted or ErrStopped. It does not block
// but for fn. A function in AsLeader must not wait for this node to resign, transfer or stop.
func (c *Cluster) AsLeader(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().AsLeader(ctx, fn)
}

// Resign gives leadership up: the term's context ends and its work is waited for, up to
// Config.WorkTimeout, before etcd is notified; the node then queues again at the tail. It blocks
// until etcd confirmed that, the session is gone, or ctx ends; the resignation goes on in that
// case. Errors are election.ErrNotLeader, ctx's cause, ErrNotStarted and ErrStopped.
func (c *Cluster) Resign(ctx context.Context) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().Resign(ctx)
}

// Transfer hands leadership over to the member at address, which must be a candidate: those that
// wait before it queue again at the tail, and the leader resigns when it is next. Any node may ask
// for it. It blocks until that member leads, it turns out to be impossible, or ctx ends; the
// request is then taken back. Errors match election.ErrNoLeader, ErrNotMember, ErrNotCandidate,
// ErrOutsider, ErrFallback or ErrNotMoved of that package, ErrNotStarted or ErrStopped.
func (c *Cluster) Transfer(ctx context.Context, address string) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().Transfer(ctx, address)
}

// RequestResign asks the leader to give way to the next in the queue, as by Resign; one that is alone leads again,
// with a new token. Any node may ask for it. It blocks, and fails, as Transfer does.
func (c *Cluster) RequestResign(ctx context.Context) error {
	p, err := c.running()
	if err != nil {
		return err
	}
	return p.manager.Election().RequestResign(ctx)
}

// ConsensusManager is this node's view of what the cluster agrees on. All methods are safe for
// concurrent use and none blocks. Before Start has returned and after Stop nobody leads.
type ConsensusManager struct{ c *Cluster }

// GetConsensusManager is this node's view of what the cluster agrees on. It is never nil.
func (c *Cluster) GetConsensusManager() *ConsensusManager { return &c.consensus }

// GetLeaderNode is [Cluster.GetLeaderNode].
func (m *ConsensusManager) GetLeaderNode() string { return m.c.GetLeaderNode() }

// IsLeader is [Cluster.IsLeader]: no lock, no allocation, no network.
func (m *ConsensusManager) IsLeader() bool { return m.c.IsLeader() }

// Leader is [Cluster.Leader].
func (m *ConsensusManager) Leader() election.Leader { return m.c.Leader() }

// Mode is the rule by which leadership goes at present: fallback if an acting leader leads, or if
// nobody does, this node's election failed and it takes part in fallback.
func (m *ConsensusManager) Mode() election.Mode {
	p := m.c.parts.Load()
	if p == nil {
		return election.ModeElection
	}
	return p.manager.Mode()
}
