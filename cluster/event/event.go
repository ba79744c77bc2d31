// Package event defines the events of a cluster's event log: what happened to the leader, the nodes and the
// shards, when, and why, and what operators requested of processors. Package cluster records the events in etcd and
// delivers them. The command goversed events and the HTTP path /cluster/events show them in the JSON of [Event]. The
// log lines of the nodes carry the type of an event in the field "event". Programs record events of their own with
// Events.Record of package cluster; their types begin with [ProgramPrefix].
//
// # What is not promised
//
//   - Not every event of Goverse's own is recorded. Recording delays nothing: events that etcd refuses are lost, and
//     so may be events from a long time in which no node reached etcd. Do not base decisions on events; use
//     Cluster.Leader and the like for the current state. Events are for people and for looking back.
//   - Operators' requests are recorded after they were carried out. That neither delays a request nor makes it fail,
//     so a request may be missing, above all if the process that made it ends at once.
//   - The log is no queue: the oldest events are deleted, read or not.
//   - Times cannot be compared to the millisecond. Each is taken from the clock of the node that recorded the
//     event. Revisions and tokens come from etcd and can be compared.
package event

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Log is an event log: Events of package cluster or of package pgnode, which describe the methods.
type Log interface {
	// Recent returns the newest events that this process knows, oldest first. It does not block.
	Recent() []Event
	// List reads the log, oldest first; more reports whether q.Limit has left out older events.
	List(ctx context.Context, q Query) (found []Event, more bool, err error)
	// ForEach calls fn with every event recorded after seq, then with new ones, until ctx ends or fn returns an error.
	ForEach(ctx context.Context, seq int64, fn func(Event) error) error
}

// Query selects the events that Events.List of package cluster returns. The zero value selects all.
type Query struct {
	// After excludes events up to this Seq.
	After int64
	// Since excludes events before this time.
	Since time.Time
	// Types selects events of these types; empty means all.
	Types []Type
	// Limit is the maximum number of events to return, the newest ones; 0 means no limit.
	Limit int
}

// Type is the kind of an event. Programs may test for these names, which do not change. New types may be added; none
// of them will begin with [ProgramPrefix]. A log may have types that this release does not know: they are delivered
// and shown like the others.
type Type string

// ProgramPrefix begins the types of the events that programs record, and no type of Goverse's own. The rest of such a
// type is one or more lower-case letters and underscores, as in "app_import_finished".
const ProgramPrefix = "app_"

// OfProgram reports whether a program recorded the event, with Events.Record of package cluster.
func (t Type) OfProgram() bool { return strings.HasPrefix(string(t), ProgramPrefix) }

// The types of events.
const (
	// LeaderElected means that Node leads, in the term with Token. Seconds is the time without a leader before
	// it, as seen by the node that recorded the event. That time begins when the former leader no longer
	// answered, was accused, or lost its term.
	LeaderElected Type = "leader_elected"
	// LeaderLost means that the term with Token, which was Node's, is over. Reason is the reason. If watchers
	// got no answers from Node, Seconds is the length of its silence up to the end of the term.
	LeaderLost Type = "leader_lost"
	// ElectionStarted means that no node leads and that the next candidate will. Token is that of the last
	// leader, or 0 if there was none.
	ElectionStarted Type = "election_started"
	// NodeJoined means that Node has registered.
	NodeJoined Type = "node_joined"
	// NodeLeft means that Node has stopped, as it had announced.
	NodeLeft Type = "node_left"
	// NodeLost means that Node's lease expired or was revoked. Node may return with another session.
	NodeLost Type = "node_lost"
	// NodeAccused means that Peer accuses Node's process of being gone. Reason is the evidence. Accusations of silence
	// are not recorded.
	NodeAccused Type = "node_accused"
	// NodeRefuted means that Node is alive although Peer could not reach it.
	NodeRefuted Type = "node_refuted"
	// NodeRemoved means that Node was removed before its lease expired, because its process is gone, or because it was
	// silent. Peer accused it, and Reason is the evidence. Seconds is the time that Node had to refute the accusation:
	// its grace period and the duration of the removal. It is 0 for a silent Node.
	NodeRemoved Type = "node_removed"
	// NodeSilent means that Node is registered but has not answered Peer, its watcher, for Seconds. Its process
	// may stand still. If Node has a silence time-out, it may soon be removed.
	NodeSilent Type = "node_silent"
	// NodeAnswering means that Node answers again after a silence of about Seconds.
	NodeAnswering Type = "node_answering"
	// DrainStarted means that Node releases its shards and gets no new ones.
	DrainStarted Type = "drain_started"
	// DrainEnded means that Node may get shards again.
	DrainEnded Type = "drain_ended"
	// SessionLost means that Node's own session ended without being closed. Reason is the reason. Seconds is
	// the time that the node was without a session. It begins when the session was no longer valid, even if the
	// node stood still then.
	SessionLost Type = "session_lost"
	// ClusterDegraded means that the cluster has had no working leader for a second or longer, beginning at
	// Time: either no node led, or the leader did not answer its watchers until its term ended. Token is that
	// of the last leader.
	ClusterDegraded Type = "cluster_degraded"
	// ClusterRecovered means that a node leads again. Seconds is the time without a leader. Token is that of
	// the new leader.
	ClusterRecovered Type = "cluster_recovered"
	// ShardsRebalanced means that the shard map has a new Generation, in which Moved shards have a new owner.
	// If Reason is [ReasonFirst], it is their first owner.
	ShardsRebalanced Type = "shards_rebalanced"
	// FallbackEntered means that the election cannot work and that Node, which has the smallest address, leads
	// in fallback with Token.
	FallbackEntered Type = "fallback_entered"
	// FallbackLeft means that Node, with Token, no longer leads in fallback: the election works again, a member
	// with a smaller address has appeared, or Node is gone.
	FallbackLeft Type = "fallback_left"
	// FormatChanged means that the cluster may use another format of its records and messages, ClusterFormat. Node is
	// the member that decides it, because it runs the oldest release.
	FormatChanged Type = "format_changed"
	// ProcessorPaused means that the operator By has requested a pause of Processor, for Reason.
	ProcessorPaused Type = "processor_paused"
	// ProcessorResumed means that the operator By has ended the pause of Processor.
	ProcessorResumed Type = "processor_resumed"
	// ProcessorRewound means that the operator By has moved the checkpoint of Processor to Position; without one, to the
	// beginning. From is the position that a read shortly before has shown.
	ProcessorRewound Type = "processor_rewound"
	// ProcessorRetried means that the operator By has requested that the event parked at Position be handled again. It
	// does not say whether that has succeeded.
	ProcessorRetried Type = "processor_retried"
	// ProcessorDropped means that the operator By has removed the record of the event parked at Position.
	ProcessorDropped Type = "processor_dropped"
	// ProcessorUnfenced means that the operator By lets any token claim the checkpoint of Processor.
	ProcessorUnfenced Type = "processor_unfenced"
)

// Types returns all types. Their order is that of events which occur at the same instant: causes come first.
func Types() []Type {
	return []Type{SessionLost, NodeSilent, NodeAccused, NodeRefuted, NodeRemoved, NodeLost, NodeJoined, LeaderLost,
		ElectionStarted, ClusterDegraded, FallbackLeft, FallbackEntered, LeaderElected, ClusterRecovered, NodeLeft,
		NodeAnswering, DrainStarted, DrainEnded, ShardsRebalanced, FormatChanged, ProcessorPaused, ProcessorResumed,
		ProcessorRewound, ProcessorRetried, ProcessorDropped, ProcessorUnfenced}
}

// Field is the name of the log field that holds an event's type.
const Field = "event"

// Event is one event of the log. It has the same JSON form in etcd and where it is shown. Fields that do not
// apply to its type are left out.
type Event struct {
	// ID identifies the event. All nodes that observe the event derive the same ID, so it is recorded once.
	ID string `json:"id"`
	// Seq is the etcd revision at which the event was recorded; 0 if it was not. It never decreases from one
	// event of the log to the next. Events that were recorded in one transaction have the same Seq.
	Seq int64 `json:"seq,omitempty"`
	// More is set while following the log: further events with the same Seq come next. Resuming after this Seq
	// would skip them.
	More bool `json:"-"`
	Type Type `json:"type"`
	// Time is the time at which the recording node observed the event, by that node's clock.
	Time time.Time `json:"time"`
	// Node is the advertise address of the node that the event is about; for an event of a program or an operator's
	// request, of the node that recorded it.
	Node string `json:"node,omitempty"`
	// Token is the fencing token of the term that the event is about.
	Token int64 `json:"token,omitempty"`
	// Revision is etcd's revision in the view in which the recording node observed the event.
	Revision int64 `json:"revision,omitempty"`
	// Reason is the reason in the words of the log. For the end of a term it is one of leaderelection.Reason,
	// [ReasonRemoved] or [ReasonSilent]; for a shard map it is [ReasonFirst] or empty.
	Reason string `json:"reason,omitempty"`
	// Peer is the advertise address of another node that took part, such as the accuser.
	Peer string `json:"peer,omitempty"`
	// Seconds is a duration; its meaning depends on the type.
	Seconds float64 `json:"seconds,omitempty"`
	// Generation and Moved are set for ShardsRebalanced only.
	Generation int64 `json:"generation,omitempty"`
	Moved      int   `json:"moved,omitempty"`
	// ClusterFormat is set for FormatChanged only.
	ClusterFormat int `json:"cluster_format,omitempty"`
	// Processor, By, From and Position are set for operators' requests of processors only: the processor's name, the
	// operator's name, and positions. Texts that are too long for the log end with "...".
	Processor string `json:"processor,omitempty"`
	By        string `json:"by,omitempty"`
	From      string `json:"from,omitempty"`
	Position  string `json:"position,omitempty"`
	// Data is set for events of programs only: what the program recorded, as compact JSON.
	Data json.RawMessage `json:"data,omitempty"`
	// RecordedBy is the advertise address of the node that recorded the event; "" if no node did, but goversed.
	RecordedBy string `json:"recorded_by,omitempty"`
}

const (
	// ReasonRemoved is the reason of a term that ended because its leader's process was found to be gone.
	ReasonRemoved = "its process is gone"
	// ReasonSilent is the reason of a term that ended because its leader was removed for its silence.
	ReasonSilent = "it stands still or is cut off"
	// ReasonFirst is the reason of the first shard map.
	ReasonFirst = "the first map"
)
