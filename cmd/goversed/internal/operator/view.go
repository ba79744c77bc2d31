package operator

import (
	"github.com/goverse/goverse/internal/state"
)

// View is the cluster as etcd has it. Lists are never nil.
type View struct {
	LeaderID    string   `json:"leader_id"` // "" when there is none
	Term        int64    `json:"term"`      // the same number as Token
	Token       int64    `json:"token"`
	Mode        string   `json:"mode"`          // election or fallback
	Member      bool     `json:"leader_member"` // false for a leader that is no Goverse node
	ClusterSize int      `json:"cluster_size"`
	Queue       []string `json:"queue"` // addresses, first come first
	Nodes       []string `json:"nodes"` // addresses in order
	Revision    int64    `json:"revision"`
	// Stale: etcd does not answer; this is how things were at Revision.
	Stale bool `json:"stale,omitempty"`
	// LeaderSilentSeconds is for how long the leader has not answered, at least; absent if it does.
	LeaderSilentSeconds int64 `json:"leader_silent_seconds,omitempty"`
}

// Details is a View with all that the nodes say of themselves.
type Details struct {
	View
	Members []Node `json:"members"` // by address, never nil
	prefix  string
}

// Node is one registered node.
type Node struct {
	Address        string            `json:"address"`
	State          string            `json:"state"` // follower, candidate or leader
	Place          int               `json:"place"` // in the queue from 1 up, 0 when not queued
	Incarnation    int64             `json:"incarnation"`
	InstanceID     string            `json:"instance_id"`
	Hostname       string            `json:"hostname"`
	HTTPAddress    string            `json:"http_address"`
	Version        string            `json:"version"`
	TTL            int64             `json:"ttl"` // of its session, in seconds
	Weight         int               `json:"weight"`
	Labels         map[string]string `json:"labels,omitempty"`
	Observer       bool              `json:"observer"`
	Draining       bool              `json:"draining"` // gives its shards up, and gets none
	Stopping       bool              `json:"stopping"` // is on its way out
	ElectionFailed bool              `json:"election_failed"`
	Reason         string            `json:"reason,omitempty"` // why its election failed
	// RoundTripMS is how long its requests to etcd take, in milliseconds, if it is far.
	RoundTripMS int64 `json:"round_trip_ms,omitempty"`
	// SilentSeconds is for how long it has not answered the nodes that watch it, as they said last: it may be half as
	// long again. SilentTo is how many say so. Both are absent while it answers.
	SilentSeconds int64 `json:"silent_seconds,omitempty"`
	SilentTo      int   `json:"silent_to,omitempty"`
}

// Leader is the leader's own entry in the View and what its record adds.
type Leader struct {
	LeaderID string `json:"leader_id"`
	Term     int64  `json:"term"`
	Token    int64  `json:"token"`
	Mode     string `json:"mode"`
	Member   bool   `json:"leader_member"`
	Hostname string `json:"hostname"`
	HTTP     string `json:"http_address"`
}

func newView(s *state.Snapshot) View {
	l := s.Leader()
	v := View{LeaderID: l.Address, Term: l.Token, Token: l.Token, Mode: string(l.Mode), Member: l.Member,
		ClusterSize: len(s.Members), Queue: make([]string, 0, len(s.Queue)), Nodes: make([]string, 0, len(s.Members)),
		Revision: s.Revision, Stale: s.Stale}
	for _, c := range s.Queue {
		v.Queue = append(v.Queue, c.Address)
	}
	for _, m := range s.Members {
		v.Nodes = append(v.Nodes, m.Address)
		if m.Address == v.LeaderID {
			v.LeaderSilentSeconds, _ = silence(s, m)
		}
	}
	return v
}

func newDetails(s *state.Snapshot) Details {
	d := Details{View: newView(s), Members: make([]Node, 0, len(s.Members)), prefix: s.Keys.Prefix()}
	l := s.Leader()
	for _, m := range s.Members {
		n := Node{Address: m.Address, State: "follower", Incarnation: m.Incarnation, InstanceID: m.InstanceID,
			Hostname: m.Hostname, HTTPAddress: m.HTTPAddress, Version: m.Version, TTL: m.TTL, Weight: max(m.Weight, 1),
			Labels: m.Labels, Observer: m.Observer, Draining: m.Draining, Stopping: m.Stopping,
			ElectionFailed: m.ElectionFailed, Reason: m.Reason,
			RoundTripMS: m.RoundTripMS}
		n.SilentSeconds, n.SilentTo = silence(s, m)
		if c, place := s.Candidate(m.Lease); c != nil {
			n.State, n.Place = "candidate", place+1
		}
		if l.Member && l.Lease == m.Lease {
			n.State = "leader"
		}
		d.Members = append(d.Members, n)
	}
	return d
}

// Leader is who leads; LeaderID is "" when nobody does.
func (d Details) Leader() Leader {
	l := Leader{LeaderID: d.LeaderID, Term: d.Term, Token: d.Token, Mode: d.Mode, Member: d.Member}
	for _, n := range d.Members {
		if n.State == "leader" {
			l.Hostname, l.HTTP = n.Hostname, n.HTTPAddress
		}
	}
	return l
}

// silence is for how long m has not answered, as the nodes that watch it said last, and how many say so.
func silence(s *state.Snapshot, m *state.Member) (seconds int64, to int) {
	for _, x := range s.SilencesOf(m) {
		seconds, to = max(seconds, int64(x.Silent().Seconds())), to+1
	}
	return seconds, to
}
