package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// NodeState is the state of a node in its cluster.
type NodeState string

// The node states.
const (
	StateStarting  NodeState = "starting"  // Start was not called, or has not returned yet
	StateFollower  NodeState = "follower"  // registered, not queued
	StateCandidate NodeState = "candidate" // waits in the queue
	StateLeader    NodeState = "leader"
	StateStopped   NodeState = "stopped" // Stop has returned, or Start has failed
)

// Running reports whether the node is part of its cluster: Start has returned, and Stop has not.
func (s NodeState) Running() bool { return s != StateStarting && s != StateStopped }

// Status is a node's view of the cluster at one instant.
type Status struct {
	NodeID   string              `json:"node_id"` // advertise address
	State    NodeState           `json:"state"`
	IsLeader bool                `json:"is_leader"`
	LeaderID string              `json:"leader_id"` // "" if there is no leader, or this node is cut off
	Token    int64               `json:"token"`     // the leader's; 0 if there is none
	Mode     leaderelection.Mode `json:"mode"`
	// Ready reports whether this node can take on work: it is a member, its session is valid, its view of the
	// cluster is fresh, and it is not stopping. It does not require a leader.
	Ready bool `json:"ready"`
	// Stopping reports whether Stop was called and has not returned.
	Stopping bool `json:"stopping"`
	// ClusterReady reports whether the node is Ready and knows a leader.
	ClusterReady bool     `json:"cluster_ready"`
	Queue        []string `json:"queue"`
	Nodes        []string `json:"nodes"`
	Revision     int64    `json:"revision"`
	// ViewSeen is the latest time up to which this node's view is known to include every change in etcd; zero
	// before the first view. It advances every third of the TTL, and not while etcd is away.
	ViewSeen time.Time `json:"view_seen"`

	SessionValid bool          `json:"session_valid"`
	SessionTTL   time.Duration `json:"session_ttl_ns"` // as granted
	Deadline     time.Time     `json:"deadline"`       // of the session; zero without one
	// Counters since Start.
	Terms        int64 `json:"terms"` // that this node began
	SessionsLost int64 `json:"sessions_lost"`
	Rebuilds     int64 `json:"rebuilds"` // reads of the whole cluster after a lost or lagging watch
	// Watchers is the number of other nodes that would notice the death of this process.
	Watchers int `json:"watchers"`
	// SilenceTimeout is CrashDetection.SilenceTimeout with its default, 0 if the node has none.
	SilenceTimeout time.Duration `json:"silence_timeout_ns"`
	// ArmedWatchers is the number of nodes that may accuse this one of silence. Proof is the reason why none of them can
	// have removed it for that.
	ArmedWatchers int   `json:"armed_watchers"`
	Proof         Proof `json:"proof"`
	// SilentNodes is the number of registered nodes that do not answer their watchers, according to these.
	// LeaderSilent is the time for which the leader has not answered, 0 if it does. See MemberRow.
	SilentNodes  int           `json:"silent_nodes"`
	LeaderSilent time.Duration `json:"leader_silent_ns"`
	// Crashes counts what crash detection observed and did on this node.
	Crashes CrashStats `json:"crashes"`
	// Shards holds the figures of this node's part in the shards. They are zero with Sharding.Off.
	Shards shard.Stats `json:"shards"`
	// LastEnd is the reason for the end of this node's last term; nil if none has ended.
	LastEnd *leaderelection.TermOverError `json:"last_end"`
	// ElectionFailed is the reason why this node cannot campaign, "" if it can.
	ElectionFailed string `json:"election_failed"`
	// Log is the state of the queue in front of Config.Logger.
	Log LogStatus `json:"log"`
}

// LogStatus is the state of a queue of log lines.
type LogStatus struct {
	// Waiting is the number of lines waiting to be written.
	Waiting int `json:"waiting"`
	// Lost counts the lines never written because too many waited.
	Lost uint64 `json:"lost"`
	// StalledFor is the time that the write in progress has taken so far; 0 if there is none.
	StalledFor time.Duration `json:"stalled_for_ns"`
}

// Status returns this node's view of the cluster. It never blocks and does not use the network. The queue is in
// order of arrival, the nodes by address.
func (c *Cluster) Status() Status {
	st := Status{NodeID: c.node.AdvertiseAddress(), State: StateStarting, Mode: leaderelection.ModeElection,
		Queue: []string{}, Nodes: []string{}, Log: LogStatus(logqueue.StateOf(c.log))}
	p, err := c.runningParts()
	if err != nil {
		if errors.Is(err, ErrStopped) {
			st.State = StateStopped
		}
		return st
	}
	c.mu.Lock()
	at := c.phase
	c.mu.Unlock()
	e := p.Consensus.Election()
	snap := p.Mirror.Snapshot()
	s := p.Keeper.Current()
	valid := s != nil && s.Valid() // checked before and after: without a valid session there is no leader
	leader := e.Leader()
	st.Mode = p.Consensus.Mode()
	st.LeaderID, st.Token = leader.Address, leader.Token
	st.IsLeader = leader.Address != "" && s != nil && leader.Lease == int64(s.ID()) && e.IsLeader()
	st.Revision, st.ViewSeen = snap.Revision, p.Mirror.CompleteAsOf()
	st.State = StateFollower
	for _, q := range snap.Queue {
		st.Queue = append(st.Queue, q.Address)
	}
	for _, m := range snap.RegisteredMembers() {
		st.Nodes = append(st.Nodes, m.Address)
	}
	if s != nil {
		st.SessionValid, st.SessionTTL, st.Deadline = valid && s.Valid(), s.TTL(), s.Deadline()
		st.ArmedWatchers, st.Proof = proofOf(s)
		if own, _ := snap.CandidateOn(int64(s.ID())); own != nil && st.SessionValid {
			st.State = StateCandidate
		}
	}
	if st.IsLeader {
		st.State = StateLeader
	}
	st.Stopping = at == phaseStopping
	st.Ready = !st.Stopping && st.SessionValid && !snap.Stale
	st.ClusterReady = st.Ready && leader.Address != ""
	st.Terms, st.LastEnd = e.Terms(), e.LastEnd()
	st.SessionsLost, st.Rebuilds = p.Keeper.LostSessions(), p.Mirror.RebuildCount()
	st.SilenceTimeout = suspicion.Settings(c.cfg.CrashDetection).OwnSilenceTimeout()
	st.Watchers, st.Crashes = c.node.Watchers(), CrashStats(p.Detector.Stats())
	for _, m := range snap.RegisteredMembers() {
		if silent, to := p.silences.silenceOf(snap, m); to > 0 {
			st.SilentNodes++
			if m.Address == leader.Address {
				st.LeaderSilent = silent
			}
		}
	}
	st.Shards = p.Consensus.ShardStats()
	if err := e.Failed(); err != nil {
		st.ElectionFailed = err.Error()
	}
	return st
}

// LeaderInfo holds details about the current leader.
type LeaderInfo struct {
	leaderelection.Leader
	Hostname    string    `json:"hostname"`
	HTTPAddress string    `json:"http_address"`
	AcquiredAt  time.Time `json:"acquired_at"` // on other nodes than the leader: when this node first saw it lead
	RenewedAt   time.Time `json:"renewed_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	// Estimated is false on the leader itself. On other nodes the times are derived from etcd's answer about the
	// lease, to the second.
	Estimated bool `json:"estimated"`
}

// LeaderInfo returns details about the leader. On the leader they are exact; on other nodes it asks etcd for the
// leader's lease, at most once a second. It returns leaderelection.ErrNoLeader if there is no leader.
func (c *Cluster) LeaderInfo(ctx context.Context) (LeaderInfo, error) {
	p, err := c.runningParts()
	if err != nil {
		return LeaderInfo{}, err
	}
	e := p.Consensus.Election()
	info := LeaderInfo{Leader: e.Leader()}
	if info.Address == "" {
		return LeaderInfo{}, leaderelection.ErrNoLeader
	}
	if m := p.Mirror.Snapshot().Member(info.Address); m != nil {
		info.Hostname, info.HTTPAddress = m.Hostname, m.HTTPAddress
	}
	if t, leads := e.Term(); leads && t.Token() == info.Token {
		s := p.Keeper.Current()
		if s != nil {
			info.AcquiredAt, info.RenewedAt, info.ExpiresAt = t.AcquiredAt(), s.RenewedAt(), s.Deadline()
			return info, nil
		}
	}
	info.Estimated = true
	info.AcquiredAt = p.leaders.firstSeen(info.Token)
	if info.Lease == 0 {
		return info, nil // an outside candidate without a lease
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	ask := func(ask func(ctx context.Context)) bool {
		return p.tracked.Go(func(rest context.Context) {
			rest, cancel := context.WithTimeout(rest, c.cfg.RequestTimeout)
			defer cancel()
			ask(rest)
		})
	}
	info.RenewedAt, info.ExpiresAt, err = p.leaders.leaseTimes(ctx, p.client, clientv3.LeaseID(info.Lease), ask)
	if err != nil {
		return LeaderInfo{}, fmt.Errorf("ask etcd for the leader's lease: %w", err)
	}
	return info, nil
}

// leaderTimes remembers when the leader was first seen, and etcd's last answer about its lease. The zero value is
// ready.
type leaderTimes struct {
	mu      sync.Mutex
	token   int64
	first   time.Time
	leaseID clientv3.LeaseID
	asked   time.Time
	renewed time.Time
	expires time.Time
	failed  error         // the error, if there was no answer
	pending chan struct{} // closed when the request in progress was answered; nil if there is none
}

func (l *leaderTimes) recordLeader(leader leaderelection.Leader, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader.Token != 0 && leader.Token != l.token {
		l.token, l.first = leader.Token, now
	}
}

func (l *leaderTimes) firstSeen(token int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != token {
		return time.Time{}
	}
	return l.first
}

// leaseTimes returns the times of the leader's lease. All callers share one request a second at most, because programs
// outside of the cluster can trigger it. start runs the request in a goroutine with a context of its own. That
// context is not ctx, so a caller that goes away does not take the answer from the others.
func (l *leaderTimes) leaseTimes(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID,
	start func(ask func(ctx context.Context)) bool) (renewed, expires time.Time, err error) {
	for {
		l.mu.Lock()
		if l.leaseID == id && time.Since(l.asked) < time.Second {
			defer l.mu.Unlock()
			return l.renewed, l.expires, l.failed
		}
		first := l.pending == nil
		if first {
			l.pending = make(chan struct{})
		}
		asking := l.pending
		l.mu.Unlock()
		if first && !start(func(ctx context.Context) { l.requestLease(ctx, client, id) }) {
			l.recordAnswer(id, nil, ErrStopped)
		}
		select {
		case <-asking:
		case <-ctx.Done():
			return time.Time{}, time.Time{}, context.Cause(ctx)
		}
	}
}

func (l *leaderTimes) requestLease(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) {
	resp, err := client.TimeToLive(ctx, id)
	l.recordAnswer(id, resp, err)
}

func (l *leaderTimes) recordAnswer(id clientv3.LeaseID, resp *clientv3.LeaseTimeToLiveResponse, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.pending)
	l.pending = nil
	l.leaseID, l.asked, l.failed = id, time.Now(), err
	l.renewed, l.expires = time.Time{}, time.Time{}
	if err == nil && resp.TTL > 0 { // not for a lease that is gone
		l.expires = l.asked.Add(time.Duration(resp.TTL) * time.Second)
		l.renewed = l.expires.Add(-time.Duration(resp.GrantedTTL) * time.Second)
	}
}
