package operator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

// View is the cluster as etcd shows it. Lists are never nil.
type View struct {
	LeaderID    string   `json:"leader_id"` // "" if there is none
	Term        int64    `json:"term"`      // the same number as Token
	Token       int64    `json:"token"`
	Mode        string   `json:"mode"`          // election or fallback
	Member      bool     `json:"leader_member"` // false for a leader that is not a Goverse node
	ClusterSize int      `json:"cluster_size"`
	Queue       []string `json:"queue"` // addresses, first to come first
	Nodes       []string `json:"nodes"` // addresses in order
	Revision    int64    `json:"revision"`
	// Stale reports that etcd does not answer. The view is then that of Revision.
	Stale bool `json:"stale,omitempty"`
	// LeaderSilentSeconds is the least time for which the leader has not answered. It is absent if the leader
	// answers.
	LeaderSilentSeconds int64 `json:"leader_silent_seconds,omitempty"`
}

// Details is a View with the records of all nodes.
type Details struct {
	View
	Members []Node `json:"members"` // by address, never nil
	// Format is the format of records and messages that the cluster may use: the newest that all nodes read. FormatBy is
	// the node that decides it, because it runs the oldest release; "" without nodes.
	Format   int    `json:"format"`
	FormatBy string `json:"format_by"`
	// Lease describes the last term, as its leader has recorded it. Only a cluster in PostgreSQL has one.
	Lease *pgnode.Lease `json:"lease,omitempty"`
	where string        // "under /goverse", or "in the schema goverse"
}

// Node is one registered node.
type Node struct {
	Address        string            `json:"address"`
	State          string            `json:"state"` // follower, candidate or leader
	Place          int               `json:"place"` // in the queue from 1, 0 if not queued
	Incarnation    int64             `json:"incarnation"`
	InstanceID     string            `json:"instance_id"`
	Hostname       string            `json:"hostname"`
	HTTPAddress    string            `json:"http_address"`
	Version        string            `json:"version"`
	TTL            int64             `json:"ttl"` // of its session, in seconds
	Weight         int               `json:"weight"`
	Labels         map[string]string `json:"labels,omitempty"`
	Observer       bool              `json:"observer"`
	ElectionOnly   bool              `json:"election_only,omitempty"` // has no server and no shards
	Draining       bool              `json:"draining"`                // gives its shards up, and gets none
	Stopping       bool              `json:"stopping"`                // is about to leave
	ElectionFailed bool              `json:"election_failed"`
	Reason         string            `json:"reason,omitempty"` // why its election failed
	// RoundTripMS is the time its requests to etcd take, in milliseconds, if etcd is far.
	RoundTripMS int64 `json:"round_trip_ms,omitempty"`
	// SilentSeconds is the time for which it has not answered the nodes that watch it, as last reported. The
	// actual time may be half as long again. SilentTo is the number of these nodes. Both are absent while it
	// answers.
	SilentSeconds int64 `json:"silent_seconds,omitempty"`
	SilentTo      int   `json:"silent_to,omitempty"`
	// Goverse is the release of Goverse that it runs, "" if it publishes none. OldestFormat and NewestFormat are the ends
	// of the range of formats that it reads.
	Goverse      string `json:"goverse"`
	OldestFormat int    `json:"oldest_format"`
	NewestFormat int    `json:"newest_format"`
	// Gone reports that the node's session in PostgreSQL has ended; another node is about to delete its row.
	// HeartbeatSeconds is the time since its last heartbeat. In etcd both are absent.
	Gone             bool     `json:"gone,omitempty"`
	HeartbeatSeconds *float64 `json:"heartbeat_seconds,omitempty"`
}

// Leader is the leader's part of the View with the additions of its record.
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
	l := leaderelection.LeaderIn(s)
	v := View{LeaderID: l.Address, Term: l.Token, Token: l.Token, Mode: string(l.Mode), Member: l.Member,
		ClusterSize: len(s.Members), Queue: make([]string, 0, len(s.Queue)), Nodes: make([]string, 0, len(s.Members)),
		Revision: s.Revision, Stale: s.Stale}
	for _, c := range s.Queue {
		v.Queue = append(v.Queue, c.Address)
	}
	for _, m := range s.Members {
		v.Nodes = append(v.Nodes, m.Address)
		if m.Address == v.LeaderID {
			v.LeaderSilentSeconds, _ = memberSilence(s, m)
		}
	}
	return v
}

func newDetails(s *state.Snapshot) Details {
	d := Details{View: newView(s), Members: make([]Node, 0, len(s.Members)), where: "under " + s.Keys.Prefix(),
		Format: s.Format().Format}
	if by := s.Format().DecidedBy; by != nil {
		d.FormatBy = by.Address
	}
	l := s.Leader()
	for _, m := range s.Members {
		n := Node{Address: m.Address, State: "follower", Incarnation: m.Incarnation, InstanceID: m.InstanceID,
			Hostname: m.Hostname, HTTPAddress: m.HTTPAddress, Version: m.Version, TTL: m.TTL, Weight: max(m.Weight, 1),
			Labels: m.Labels, Observer: m.Observer, ElectionOnly: m.ElectionOnly, Draining: m.Draining, Stopping: m.Stopping,
			ElectionFailed: m.ElectionFailed, Reason: m.Reason,
			RoundTripMS: m.RoundTripMS, Goverse: m.Goverse, OldestFormat: m.ReadFormats().Oldest,
			NewestFormat: m.ReadFormats().Newest}
		n.SilentSeconds, n.SilentTo = memberSilence(s, m)
		if c, place := s.CandidateOn(m.Lease); c != nil {
			n.State, n.Place = "candidate", place+1
		}
		if l.Member && l.Lease == m.Lease {
			n.State = "leader"
		}
		d.Members = append(d.Members, n)
	}
	return d
}

// Leader returns the leader. Its LeaderID is "" if there is none.
func (d Details) Leader() Leader {
	l := Leader{LeaderID: d.LeaderID, Term: d.Term, Token: d.Token, Mode: d.Mode, Member: d.Member}
	for _, n := range d.Members {
		if n.State == "leader" {
			l.Hostname, l.HTTP = n.Hostname, n.HTTPAddress
		}
	}
	return l
}

// memberSilence returns how long m has not answered, as last reported by the nodes that watch it, and their number.
func memberSilence(s *state.Snapshot, m *state.Member) (seconds int64, to int) {
	for _, x := range s.SilencesOf(m) {
		seconds, to = max(seconds, int64(x.SilentFor().Seconds())), to+1
	}
	return seconds, to
}

// releasesDiffer reports whether the nodes run different releases of Goverse, or read different formats.
func (d Details) releasesDiffer() bool {
	return slices.ContainsFunc(d.Members, func(n Node) bool {
		first := d.Members[0]
		return n.Goverse != first.Goverse || n.OldestFormat != first.OldestFormat || n.NewestFormat != first.NewestFormat
	})
}

// release describes the release of Goverse that the node runs, and the formats that it reads.
func (n Node) release() string {
	if n.NewestFormat == 0 {
		return "Goverse " + n.Goverse // formats concern etcd
	}
	return fmt.Sprintf("Goverse %s, format %v", cmp.Or(n.Goverse, "of before formats"),
		format.Range{Oldest: n.OldestFormat, Newest: n.NewestFormat})
}
