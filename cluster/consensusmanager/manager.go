package consensusmanager

import (
	"context"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// ConsensusManager is one node's view of what its cluster agrees on. It lives from before the node starts until after
// it has stopped. While the node does not run there is no leader, no member and no owner, and errors are
// leaderelection.ErrNotStarted and leaderelection.ErrStopped. All methods are safe for concurrent use, and only
// WaitForLeader blocks.
type ConsensusManager struct {
	running func() (*Runner, error)
}

// New returns the view of a node. It is made before the node has any parts, so it asks for them at each call: running
// returns the node's runner while the node runs, and lifecycle.ErrNotStarted or lifecycle.ErrStopped otherwise. running
// must be safe for concurrent use, and must not block.
func New(running func() (*Runner, error)) *ConsensusManager { return &ConsensusManager{running} }

// GetLeaderNode returns the leader's advertise address. It returns "" if there is no leader, while this node is cut off
// from etcd, and while it does not run.
func (m *ConsensusManager) GetLeaderNode() string { return m.Leader().Address }

// IsLeader reports whether this node leads at this instant. It takes no lock, allocates nothing and does not use the
// network. While it is true on one node it is false on every other.
func (m *ConsensusManager) IsLeader() bool {
	r, err := m.running()
	return err == nil && r.election.IsLeader()
}

// Leader returns the current leader. It returns the zero Leader if there is none, while this node is cut off from etcd,
// and while it does not run.
func (m *ConsensusManager) Leader() leaderelection.Leader {
	r, err := m.running()
	if err != nil {
		return leaderelection.Leader{}
	}
	return r.election.Leader()
}

// Term returns this node's current term. It returns false if this node does not lead at this instant.
func (m *ConsensusManager) Term() (leaderelection.Term, bool) {
	r, err := m.running()
	if err != nil {
		return nil, false
	}
	return r.election.Term()
}

// Mode returns the rule that currently decides leadership. It is fallback if an acting leader leads, or if there is no
// leader, this node's election failed and it takes part in fallback. While the node does not run it is election.
func (m *ConsensusManager) Mode() leaderelection.Mode {
	r, err := m.running()
	if err != nil {
		return leaderelection.ModeElection
	}
	return r.Mode()
}

// WatchLeader returns a channel that delivers the current leader, then every change; the zero Leader means that there
// is none. A slow receiver skips intermediate values and always gets the newest. The channel closes when ctx ends or
// the node stops, and never otherwise.
func (m *ConsensusManager) WatchLeader(ctx context.Context) (<-chan leaderelection.Leader, error) {
	r, err := m.running()
	if err != nil {
		return nil, err
	}
	return r.election.Watch(ctx)
}

// WaitForLeader blocks until there is a leader. If ctx ends first, the error is ctx's cause.
func (m *ConsensusManager) WaitForLeader(ctx context.Context) (leaderelection.Leader, error) {
	r, err := m.running()
	if err != nil {
		return leaderelection.Leader{}, err
	}
	return r.election.WaitForLeader(ctx)
}

// watchSnapshot delivers the result of now, and again after each change of the snapshot that concerns it, until ctx
// ends or the node stops. A slow receiver gets the newest value. A value that equals the one delivered last is skipped.
func watchSnapshot[T any](ctx context.Context, m *ConsensusManager, concerns func(before, now *state.Snapshot) bool,
	now func(*state.Snapshot) T, equal func(a, b T) bool) (<-chan T, error) {
	r, err := m.running()
	if err != nil {
		return nil, err
	}
	out := make(chan T)
	started := r.watches.Go(func(rest context.Context) {
		defer close(out)
		ctx, stop := wait.MergeContexts(ctx, rest)
		defer stop()
		sub := r.mirror.Subscribe(concerns)
		defer sub.Close()
		wait.ForwardFunc(ctx, out, sub.C, func() T { return now(r.mirror.Snapshot()) }, equal)
	})
	if !started {
		return nil, lifecycle.ErrStopped
	}
	return out, nil
}

// snapshot returns the node's snapshot, or nil while the node does not run.
func (m *ConsensusManager) snapshot() *state.Snapshot {
	r, err := m.running()
	if err != nil {
		return nil
	}
	return r.mirror.Snapshot()
}
