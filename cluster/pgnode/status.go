package pgnode

import (
	"context"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/wait"
)

// ID returns the node's id: the Owner of its session.
func (n *Node) ID() string { return n.id }

// IsLeader reports whether this node leads at this instant. It does not use the network.
func (n *Node) IsLeader() bool { return n.candidate != nil && n.candidate.IsLeader() }

// Election returns this node's candidacy, nil for an observer. Packages leaderonly and processor take it. Leave
// withdraws it.
func (n *Node) Election() *postgres.Candidate { return n.candidate }

// View returns this node's view of the election, also for an observer. Leave closes it.
func (n *Node) View() *postgres.Election { return n.observed }

// Elections returns the elections on the node's session, to stand in others.
func (n *Node) Elections() *postgres.Elections { return n.elections }

// URLOf returns the HTTPAddress of a node by its id, as far as this node knows; "" if there is none. It does not block.
//
//	leads := leaderonly.NamedElection(n.Election(), n.ID(), n.URLOf)
func (n *Node) URLOf(id string) string {
	r, _ := n.seen.Load().row(id)
	return r.URL
}

// fresh reports whether the node is registered on the present session, and its view is not old.
func (n *Node) fresh(v *view) bool {
	return v.incarnation != 0 && v.session == n.keeper.SessionID() && !v.failing && time.Since(v.at) < staleAfter
}

// Status returns this node's view of the cluster. It never blocks and does not use the network. Nodes and queue have
// ids. Revision is the Seq of the newest event in the log. ViewSeen advances once a second. Figures of etcd, shards
// and crash detection are zero. Ready means that the session is valid, the node registered and its view less than
// three seconds old.
func (n *Node) Status() cluster.Status {
	v := n.seen.Load()
	leader := n.observed.Leader()
	own, leads := n.ownTerm()
	valid := n.keeper.Valid() // after the leader: without a valid session there is none
	st := cluster.Status{NodeID: n.id, State: cluster.StateFollower, Mode: leaderelection.ModeElection,
		Queue: n.observed.Queue(), Nodes: []string{}, Revision: v.Seq, ViewSeen: v.at, SessionValid: valid,
		SessionTTL: n.keeper.Deadline(), Log: cluster.LogStatus(logqueue.StateOf(n.log))}
	if st.Queue == nil {
		st.Queue = []string{}
	}
	switch {
	case leads:
		leader = leaderelection.Leader{Address: n.id, Token: own.Token()}
	case leader.Address == n.id || !valid:
		leader = leaderelection.Leader{} // its term is over
	}
	st.LeaderID, st.Token, st.IsLeader = leader.Address, leader.Token, leads
	for _, r := range v.Nodes {
		if r.Alive {
			st.Nodes = append(st.Nodes, r.ID)
		}
	}
	switch part := n.ownPart(nil); {
	case leads:
		st.State = cluster.StateLeader
	case valid && part == cluster.MemberCandidate:
		st.State = cluster.StateCandidate
	}
	if s := n.keeper.Current(); s != nil {
		_, left := s.Renewal()
		st.Deadline = time.Now().Add(left)
	}
	if n.candidate != nil {
		if err := n.candidate.Err(); err != nil {
			st.ElectionFailed = err.Error()
		}
	}
	n.mu.Lock()
	st.Stopping, st.Terms, st.SessionsLost, st.LastEnd = n.stopping && !n.stopped, n.terms, n.losses, n.lastEnd
	st.Rebuilds = max(n.connected.Load()-1, 0)
	if n.stopped {
		st.State = cluster.StateStopped
	}
	n.mu.Unlock()
	st.Ready = st.State.Running() && !st.Stopping && valid && n.fresh(v)
	st.ClusterReady = st.Ready && st.LeaderID != ""
	return st
}

// ownTerm returns the term by which this node leads at this instant, or false.
func (n *Node) ownTerm() (leaderelection.Term, bool) {
	if n.candidate == nil {
		return nil, false
	}
	return n.candidate.Term()
}

// LeaderInfo returns details about the leader. On the leader they are exact. On other nodes the times come from the
// lease, in which the leader records them once a second, by the server's clock. It returns leaderelection.ErrNoLeader
// if there is no leader. It does not block.
func (n *Node) LeaderInfo(context.Context) (cluster.LeaderInfo, error) {
	v := n.seen.Load()
	if t, leads := n.ownTerm(); leads {
		if s := n.keeper.Current(); s != nil {
			ago, left := s.Renewal()
			now := time.Now()
			return cluster.LeaderInfo{Leader: leaderelection.Leader{Address: n.id, Token: t.Token(),
				Mode: leaderelection.ModeElection, Member: true, Lease: s.ID()}, Hostname: n.host,
				HTTPAddress: n.cfg.HTTPAddress, AcquiredAt: t.AcquiredAt(), RenewedAt: now.Add(-ago), ExpiresAt: now.Add(left)}, nil
		}
	}
	info := cluster.LeaderInfo{Leader: n.observed.Leader(), Estimated: true}
	if info.Address == "" || info.Address == n.id {
		return cluster.LeaderInfo{}, leaderelection.ErrNoLeader
	}
	if r, ok := v.row(info.Address); ok {
		info.Hostname, info.HTTPAddress = r.Host, r.URL
	}
	if l := v.election(n.cfg.Election).Lease; l != nil && l.Term == info.Token {
		info.AcquiredAt, info.RenewedAt, info.ExpiresAt = l.Acquired, l.Renewed, l.Expires
	}
	return info, nil
}

// ShardTable returns cluster.ErrNoShardMap: there are no shards in PostgreSQL.
func (n *Node) ShardTable() (shard.Table, error) { return shard.Table{}, cluster.ErrNoShardMap }

// MemberTable returns this node's view of the nodes. Their addresses are ids, and SeenSince is the time at which a node
// registered, by the server's clock. It does not block. The error is ErrStopped.
func (n *Node) MemberTable() (cluster.MemberTable, error) {
	n.mu.Lock()
	stopped := n.stopped
	n.mu.Unlock()
	if stopped {
		return cluster.MemberTable{}, ErrStopped
	}
	return n.seen.Load().table(n.cfg.Election, n.id, n.ownPart(n.presentTerm())), nil
}

// SignalChanges returns a channel that signals changes in this node's view of the cluster: its leader, nodes, queue
// and events; also once a second while there are none. One signal may stand for several changes. The channel closes
// when ctx ends or the node has left. The error is ErrStopped.
func (n *Node) SignalChanges(ctx context.Context) (<-chan struct{}, error) {
	out := wait.NewSignal()
	if !n.tasks.Go(func(rest context.Context) {
		defer close(out)
		ctx, stop := wait.MergeContexts(ctx, rest)
		defer stop()
		changed, end := n.subscribe()
		defer end()
		wait.Each(ctx, changed, out.Send)
	}) {
		return nil, ErrStopped
	}
	return out, nil
}

// subscribe returns a channel that signals changes.
func (n *Node) subscribe() (_ wait.Signal, end func()) {
	s := wait.NewSignal()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subs[s] = true
	return s, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.subs, s)
	}
}

// signalChange signals a change.
func (n *Node) signalChange() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.subs {
		s.Send()
	}
}
