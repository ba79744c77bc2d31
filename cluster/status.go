package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// NodeState is what a node is in its cluster.
type NodeState string

// The node states.
const (
	StateStarting  NodeState = "starting"  // Start has not returned yet, or was not called
	StateFollower  NodeState = "follower"  // registered, not queued
	StateCandidate NodeState = "candidate" // waits in the queue
	StateLeader    NodeState = "leader"
	StateStopped   NodeState = "stopped" // or its Start has failed
)

// Running reports whether the node is part of its cluster: Start has returned, and Stop has not.
func (s NodeState) Running() bool { return s != StateStarting && s != StateStopped }

// Status is a node's view of the cluster at one instant.
type Status struct {
	NodeID   string // advertise address
	State    NodeState
	IsLeader bool
	LeaderID string // "" when there is none, or this node is cut off
	Token    int64  // the leader's term; 0 when there is none
	Mode     election.Mode
	// Ready: this node can be given work. It is a member, its session is valid and its view of
	// the cluster fresh, and it does not stop. It does not matter whether anybody leads.
	Ready bool
	// Stopping: Stop was called, and has not returned.
	Stopping bool
	// ClusterReady: Ready, and a leader is known.
	ClusterReady bool
	Queue        []string
	Nodes        []string
	Revision     int64
	// ViewSeen is the latest time of which this node knows that its view of the cluster lacks nothing that
	// etcd had done until then; zero before it has one. It is renewed every third of the TTL, and stands
	// still while etcd is away.
	ViewSeen time.Time

	SessionValid bool
	SessionTTL   time.Duration // as granted
	Deadline     time.Time     // of the session; zero without one
	// Counters since Start.
	Terms        int64 // that this node began
	SessionsLost int64
	Rebuilds     int64 // of the snapshot, after a lost or lagging watch
	// Watchers is how many other nodes would notice the death of this process.
	Watchers int
	// SilentNodes is how many registered nodes do not answer those that watch them, as these say; and LeaderSilent is
	// for how long the leader has not, 0 if it answers. See MemberRow.
	SilentNodes  int
	LeaderSilent time.Duration
	// Crashes is what crash detection saw and did here.
	Crashes CrashStats
	// Shards is this node's part in the shards. All of it is zero with Sharding.Off.
	Shards shard.Stats
	// LastEnd is why this node's last term ended; nil if none did.
	LastEnd *election.TermOverError
	// ElectionFailed is why this node cannot campaign, "" if it can.
	ElectionFailed string
	// Log is how the writing of Config.Logger stands, which nothing waits for.
	Log LogStatus
}

// LogStatus is how the writing of a log stands.
type LogStatus struct {
	// Waiting is how many lines wait to be written.
	Waiting int
	// Lost is how many lines were never written, because too many waited.
	Lost uint64
	// StalledFor is how long the line that is being written has taken so far; 0 when none is.
	StalledFor time.Duration
}

// Status never blocks and asks nobody. Lists are in order: the queue first come
// first, the nodes by address.
func (c *Cluster) Status() Status {
	st := Status{NodeID: c.node.AdvertiseAddress(), State: StateStarting, Mode: election.ModeElection,
		Queue: []string{}, Nodes: []string{}, Log: LogStatus(logqueue.Look(c.log))}
	p, err := c.running()
	if err != nil {
		if errors.Is(err, ErrStopped) {
			st.State = StateStopped
		}
		return st
	}
	c.mu.Lock()
	at := c.phase
	c.mu.Unlock()
	e := p.manager.Election()
	snap := p.mirror.Snapshot()
	s := p.keeper.Current()
	valid := s != nil && s.Valid() // before and after: there is no leader while it is not
	leader := e.Leader()
	st.Mode = p.manager.Mode()
	st.LeaderID, st.Token = leader.Address, leader.Token
	st.IsLeader = leader.Address != "" && s != nil && leader.Lease == int64(s.ID()) && e.IsLeader()
	st.Revision, st.ViewSeen = snap.Revision, p.mirror.Current()
	st.State = StateFollower
	for _, q := range snap.Queue {
		st.Queue = append(st.Queue, q.Address)
	}
	for _, m := range snap.Registered() {
		st.Nodes = append(st.Nodes, m.Address)
	}
	if s != nil {
		st.SessionValid, st.SessionTTL, st.Deadline = valid && s.Valid(), s.TTL(), s.Deadline()
		if own, _ := snap.Candidate(int64(s.ID())); own != nil && st.SessionValid {
			st.State = StateCandidate
		}
	}
	if st.IsLeader {
		st.State = StateLeader
	}
	st.Stopping = at == stopping
	st.Ready = !st.Stopping && st.SessionValid && !snap.Stale
	st.ClusterReady = st.Ready && leader.Address != ""
	st.Terms, st.LastEnd = e.Terms(), e.LastEnd()
	st.SessionsLost, st.Rebuilds = p.keeper.Lost(), p.mirror.Rebuilds()
	st.Watchers, st.Crashes = c.node.Watchers(), CrashStats(p.detector.Stats())
	for _, m := range snap.Registered() {
		if silent, to := p.silences.of(snap, m); to > 0 {
			st.SilentNodes++
			if m.Address == leader.Address {
				st.LeaderSilent = silent
			}
		}
	}
	st.Shards = p.manager.ShardStats()
	if err := e.Failed(); err != nil {
		st.ElectionFailed = err.Error()
	}
	return st
}

// LeaderInfo says more about the present leader.
type LeaderInfo struct {
	election.Leader
	Hostname    string
	HTTPAddress string
	AcquiredAt  time.Time // elsewhere than on the leader: when this node first saw it lead
	RenewedAt   time.Time
	ExpiresAt   time.Time
	// Estimated is false on the leader itself. Elsewhere the times come from what
	// etcd says of the lease, to the second.
	Estimated bool
}

// LeaderInfo is exact on the leader; elsewhere it asks etcd for the leader's
// lease, at most once a second. It returns election.ErrNoLeader when there
// is none.
func (c *Cluster) LeaderInfo(ctx context.Context) (LeaderInfo, error) {
	p, err := c.running()
	if err != nil {
		return LeaderInfo{}, err
	}
	e := p.manager.Election()
	info := LeaderInfo{Leader: e.Leader()}
	if info.Address == "" {
		return LeaderInfo{}, election.ErrNoLeader
	}
	if m := p.mirror.Snapshot().Member(info.Address); m != nil {
		info.Hostname, info.HTTPAddress = m.Hostname, m.HTTPAddress
	}
	if t := e.Term(); t != nil && t.Token() == info.Token {
		s := p.keeper.Current()
		if s != nil {
			info.AcquiredAt, info.RenewedAt, info.ExpiresAt = t.AcquiredAt(), s.Renewed(), s.Deadline()
			return info, nil
		}
	}
	info.Estimated = true
	info.AcquiredAt = p.leaders.since(info.Token)
	if info.Lease == 0 {
		return info, nil // a candidate from outside, on no lease
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	ask := func(ask func(ctx context.Context)) bool {
		return p.goRest(func(rest context.Context) {
			rest, cancel := context.WithTimeout(rest, c.cfg.RequestTimeout)
			defer cancel()
			ask(rest)
		})
	}
	info.RenewedAt, info.ExpiresAt, err = p.leaders.lease(ctx, p.client, clientv3.LeaseID(info.Lease), ask)
	if err != nil {
		return LeaderInfo{}, fmt.Errorf("ask etcd for the leader's lease: %w", err)
	}
	return info, nil
}

// leaderTimes remembers when a leader was first seen, and what etcd last said of
// its lease. The zero value is ready.
type leaderTimes struct {
	mu      sync.Mutex
	token   int64
	first   time.Time
	leaseID clientv3.LeaseID
	asked   time.Time
	renewed time.Time
	expires time.Time
	failed  error         // instead
	asking  chan struct{} // nil while nobody asks, closed when it was answered
}

func (l *leaderTimes) saw(leader election.Leader, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader.Token != 0 && leader.Token != l.token {
		l.token, l.first = leader.Token, now
	}
}

func (l *leaderTimes) since(token int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != token {
		return time.Time{}
	}
	return l.first
}

// lease asks etcd once a second at most, for all that want to know, for it is asked for from outside; start begins what
// asks, which ends with its context. That is not ctx, so that nobody who goes away takes the answer from others.
func (l *leaderTimes) lease(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID,
	start func(ask func(ctx context.Context)) bool) (renewed, expires time.Time, err error) {
	for {
		l.mu.Lock()
		if l.leaseID == id && time.Since(l.asked) < time.Second {
			defer l.mu.Unlock()
			return l.renewed, l.expires, l.failed
		}
		first := l.asking == nil
		if first {
			l.asking = make(chan struct{})
		}
		asking := l.asking
		l.mu.Unlock()
		if first && !start(func(ctx context.Context) { l.ask(ctx, client, id) }) {
			l.answered(id, nil, ErrStopped)
		}
		select {
		case <-asking:
		case <-ctx.Done():
			return time.Time{}, time.Time{}, context.Cause(ctx)
		}
	}
}

func (l *leaderTimes) ask(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) {
	resp, err := client.TimeToLive(ctx, id)
	l.answered(id, resp, err)
}

func (l *leaderTimes) answered(id clientv3.LeaseID, resp *clientv3.LeaseTimeToLiveResponse, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.asking)
	l.asking = nil
	l.leaseID, l.asked, l.failed = id, time.Now(), err
	l.renewed, l.expires = time.Time{}, time.Time{}
	if err == nil {
		l.expires = l.asked.Add(time.Duration(resp.TTL) * time.Second)
		l.renewed = l.expires.Add(-time.Duration(resp.GrantedTTL) * time.Second)
	}
}
