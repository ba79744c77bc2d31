package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster"
)

// Nodes is the body of /cluster/nodes: the registered nodes as this node sees them.
type Nodes struct {
	NodeID    string `json:"node_id"` // advertise address of this node
	Revision  int64  `json:"revision"`
	Truncated bool   `json:"truncated"`      // there are more behind the last
	Next      string `json:"next,omitempty"` // the value of ?after= for those, unchanged
	Nodes     []Node `json:"nodes"`          // by address
	// Format is the format of records and messages that the cluster may use: the newest that all nodes read. FormatBy is
	// the node that decides it, because it runs the oldest release.
	Format   int    `json:"format"`
	FormatBy string `json:"format_by"`
}

// Node is one registered node.
type Node struct {
	Address string `json:"address"` // advertise address: its name in the cluster
	// Incarnation is a revision of etcd that distinguishes this process from others at the address. It only
	// grows.
	Incarnation int64  `json:"incarnation"`
	InstanceID  string `json:"instance_id"` // random, one per process
	Hostname    string `json:"hostname"`
	APIURL      string `json:"api_url"` // "" if it serves none
	// State is its part in the election: leader, candidate, follower or observer.
	State    cluster.MemberState `json:"state"`
	Place    int                 `json:"place"`    // in the queue, counted from 1; 0 if it is not queued
	Draining bool                `json:"draining"` // it gives up its shards, and gets none
	Stopping bool                `json:"stopping"` // it is about to leave
	// ElectionOnly is set for a process that takes part in the election and in nothing else. Its address is a name: it
	// has no server, and no shards.
	ElectionOnly bool `json:"election_only"`
	// SeenSince is the time at which the responding node first saw this incarnation, by its own clock. etcd keeps
	// no time of registration. For nodes that registered before the responding node, it is the time at which that
	// one joined.
	SeenSince *time.Time `json:"seen_since,omitempty"`
	// Health is healthy, degraded (it cannot be a candidate), silent (it does not answer the nodes that watch it;
	// its process may stand still) or suspected (another node reports that its process is gone).
	Health         string            `json:"health"`
	ElectionFailed string            `json:"election_failed,omitempty"` // why it cannot be a candidate
	Version        string            `json:"version"`
	Labels         map[string]string `json:"labels"`
	Weight         int               `json:"weight"`
	// RoundTripMS is the duration of its requests to etcd in milliseconds, in coarse steps; 0 means that it is
	// near.
	RoundTripMS int64 `json:"round_trip_ms"`
	Shards      int   `json:"shards"` // assigned to it by the map
	// SilentSeconds is the time for which it has not answered the nodes that watch it, and SilentTo the number of
	// nodes that report this. Both are absent while it answers.
	SilentSeconds int64 `json:"silent_seconds,omitempty"`
	SilentTo      int   `json:"silent_to,omitempty"`
	// Goverse is the release of Goverse that it runs, "" if it publishes none. OldestFormat and NewestFormat are the ends
	// of the range of formats that it reads.
	Goverse      string `json:"goverse"`
	OldestFormat int    `json:"oldest_format"`
	NewestFormat int    `json:"newest_format"`
}

// HealthSuspected is the Node.Health of a node that another one accuses of being gone. HealthHealthy and
// HealthDegraded are further values.
const HealthSuspected = "suspected"

// HealthSilent is the Node.Health of a node that does not answer its watchers.
const HealthSilent = "silent"

func (a *api) serveNodes(w http.ResponseWriter, r *http.Request) {
	var q listQuery
	if !readListQuery(w, r, &q, nil) {
		return
	}
	source, ok := runningSource[NodeSource](a, w, "nodes")
	if !ok {
		return
	}
	table, err := source.MemberTable()
	if err != nil {
		writeErrorProblem(w, err)
		return
	}
	writeJSON(w, http.StatusOK, newNodes(a.source.Status().NodeID, table, q))
}

func newNodes(self string, table cluster.MemberTable, q listQuery) Nodes {
	body := Nodes{NodeID: self, Revision: table.Revision, Nodes: []Node{}, Format: table.Format,
		FormatBy: table.FormatBy}
	at, found := slices.BinarySearchFunc(table.Members, q.after,
		func(m cluster.MemberRow, after string) int { return cmp.Compare(m.Address, after) })
	if found {
		at++
	}
	for _, m := range table.Members[at:] {
		if len(body.Nodes) == q.limit {
			body.Truncated, body.Next = true, afterParam(body.Nodes[q.limit-1].Address)
			break
		}
		body.Nodes = append(body.Nodes, newNode(m))
	}
	return body
}

func newNode(m cluster.MemberRow) Node {
	n := Node{Address: m.Address, Incarnation: m.Incarnation, InstanceID: m.InstanceID, Hostname: m.Hostname,
		APIURL: apiURL(m.HTTPAddress), State: m.State, Place: m.Place, Draining: m.Draining, Stopping: m.Stopping,
		ElectionOnly: m.ElectionOnly, SeenSince: timeOrNil(m.SeenSince), Health: HealthHealthy,
		ElectionFailed: m.ElectionFailed, Version: m.Version, Labels: m.Labels, Weight: m.Weight,
		RoundTripMS: m.RoundTrip.Milliseconds(), Shards: m.Owned,
		SilentSeconds: int64(m.Silent.Seconds()), SilentTo: m.SilentTo,
		Goverse: m.Goverse, OldestFormat: m.OldestFormat, NewestFormat: m.NewestFormat}
	switch {
	case m.Suspected:
		n.Health = HealthSuspected
	case m.SilentTo > 0:
		n.Health = HealthSilent
	case m.ElectionFailed != "":
		n.Health = HealthDegraded
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	return n
}
