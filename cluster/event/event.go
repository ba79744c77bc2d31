// Package event is the vocabulary of a cluster's event log: what happened to its leader, its nodes and its shards,
// when, and why. Package cluster records the events in etcd and delivers them; goversed events and /cluster/events
// show them, as the JSON of [Event], and the same names are the field "event" of the nodes' log lines.
//
// # What is not promised
//
//   - That every event is recorded. Recording holds nothing up: what etcd refuses, or what happened while nobody
//     could reach etcd for long, may be missing. Decide by what is so, with Cluster.Leader and the like; events are
//     for people and for looking back.
//   - That times can be compared to the millisecond. Each is by the clock of the node that recorded the event;
//     revisions and tokens are etcd's, and order what they name.
package event

import "time"

// Type is the kind of an event. The names are stable: a program may test for them. New ones can be added.
type Type string

// The types of events.
const (
	// LeaderElected: Node leads, by the term with Token. Seconds is for how long nobody led before, as the node that
	// recorded it saw it: from when the former leader did not answer any more, was accused, or had its term end.
	LeaderElected Type = "leader_elected"
	// LeaderLost: the term with Token, of Node, is over. Reason is why; Seconds is for how long Node had not answered
	// then, where others watched it in vain.
	LeaderLost Type = "leader_lost"
	// ElectionStarted: nobody leads, and the next candidate will. Token is the last leader's, 0 if there was none.
	ElectionStarted Type = "election_started"
	// NodeJoined: Node is registered.
	NodeJoined Type = "node_joined"
	// NodeLeft: Node has stopped, after it said that it would.
	NodeLeft Type = "node_left"
	// NodeLost: Node's lease ran out or was revoked. It may be back with another session.
	NodeLost Type = "node_lost"
	// NodeAccused: Peer holds that Node's process is gone; Reason is its evidence.
	NodeAccused Type = "node_accused"
	// NodeRefuted: Node lives, though Peer could not reach it.
	NodeRefuted Type = "node_refuted"
	// NodeRemoved: Node was removed before its lease ran out; its process is gone. Peer accused it, Reason is its
	// evidence; Seconds is how long Node had to refute it, its grace period and what the removal took.
	NodeRemoved Type = "node_removed"
	// NodeSilent: Node is registered, and has not answered Peer, which watches it, for Seconds. Its process may stand
	// still. Nothing follows from it.
	NodeSilent Type = "node_silent"
	// NodeAnswering: Node, which was silent for about Seconds, answers again.
	NodeAnswering Type = "node_answering"
	// DrainStarted: Node gives its shards up, and gets none.
	DrainStarted Type = "drain_started"
	// DrainEnded: Node may have shards again.
	DrainEnded Type = "drain_ended"
	// SessionLost: Node's own session ended without being closed. Reason is why; Seconds is how long the node had none,
	// from when the session counted no more, also where the node stood still then.
	SessionLost Type = "session_lost"
	// ClusterDegraded: nobody has led for a second or longer, from Time on; or in name alone, not answering those that
	// watch it, until its term ended. Token is the last leader's.
	ClusterDegraded Type = "cluster_degraded"
	// ClusterRecovered: somebody leads again. Seconds is for how long nobody did. Token is the new leader's.
	ClusterRecovered Type = "cluster_recovered"
	// ShardsRebalanced: the shard map has a new Generation, in which Moved shards have another owner than before;
	// where Reason is [ReasonFirst] their first one.
	ShardsRebalanced Type = "shards_rebalanced"
	// FallbackEntered: the election cannot work, and Node leads by its name, with Token.
	FallbackEntered Type = "fallback_entered"
	// FallbackLeft: Node, with Token, leads by its name no more: the election works again, a smaller name has
	// appeared, or the node is gone.
	FallbackLeft Type = "fallback_left"
)

// Types are all of them, in the order in which those of one instant are told: causes first.
func Types() []Type {
	return []Type{SessionLost, NodeSilent, NodeAccused, NodeRefuted, NodeRemoved, NodeLost, NodeJoined, LeaderLost,
		ElectionStarted, ClusterDegraded, FallbackLeft, FallbackEntered, LeaderElected, ClusterRecovered, NodeLeft,
		NodeAnswering, DrainStarted, DrainEnded, ShardsRebalanced}
}

// Field is the field of a log line that says which type of event the line is about.
const Field = "event"

// Event is one event. Its JSON is how it lies in etcd, and how it is shown. What does not apply to its type is left
// out.
type Event struct {
	// ID names what happened: the same for every node that saw it, so that it is recorded once.
	ID string `json:"id"`
	// Seq is the etcd revision at which it was recorded; 0 if it is not. It never falls from event to event of the log:
	// those that were recorded in one transaction have the same.
	Seq int64 `json:"seq,omitempty"`
	// More, where the log is followed: others with the same Seq come behind it, which going on after that Seq would
	// leave out.
	More bool `json:"-"`
	Type Type `json:"type"`
	// Time is when the node that recorded it saw it, by that node's clock.
	Time time.Time `json:"time"`
	// Node is the advertise address of the node it is about.
	Node string `json:"node,omitempty"`
	// Token is the fencing token of the term it is about.
	Token int64 `json:"token,omitempty"`
	// Revision is etcd's when the node that recorded it saw it so.
	Revision int64 `json:"revision,omitempty"`
	// Reason is why, in the words of the log; of a term's end one of election.Reason, or [ReasonRemoved]; of a
	// shard map [ReasonFirst], or none.
	Reason string `json:"reason,omitempty"`
	// Peer is the advertise address of another node that took part: who accused.
	Peer string `json:"peer,omitempty"`
	// Seconds is how long it took, or lasted; see the types.
	Seconds float64 `json:"seconds,omitempty"`
	// Generation and Moved are of ShardsRebalanced.
	Generation int64 `json:"generation,omitempty"`
	Moved      int   `json:"moved,omitempty"`
	// RecordedBy is the advertise address of the node that wrote it down.
	RecordedBy string `json:"recorded_by,omitempty"`
}

const (
	// ReasonRemoved is the reason of a term that ended because its leader's process was found gone.
	ReasonRemoved = "its process is gone"
	// ReasonFirst is the reason of a shard map that has none before it.
	ReasonFirst = "the first map"
)
