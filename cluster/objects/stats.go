package objects

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/stats"
)

// Stats holds the figures of the objects on one node. Counters start at 0 with the node.
type Stats struct {
	// Services lists the services that are registered on this node, by name.
	Services []ServiceStats
	// Running is the number of running turns.
	Running int
	// Local, Remote, Retried and Lost count calls that were made on this node: to objects on this node, to
	// objects on other nodes, sent again because the object had moved, and lost, so that it is not known
	// whether they ran.
	Local, Remote, Retried, Lost int64
	// WaitingBytes is an upper bound of the bytes that wait in this node now: requests, parts of them, replies,
	// and streams that are not read. MaxWaitingBytes is their limit, and RefusedForBytes counts the calls and
	// streams refused because of it.
	WaitingBytes, MaxWaitingBytes, RefusedForBytes int64
}

// ServiceStats holds the figures of one service on one node.
type ServiceStats struct {
	Name string
	// Active is the current number of activations, Waiting that of waiting calls.
	Active, Waiting int64
	// Methods lists the methods of the service, by name.
	Methods []MethodStats
	// Deactivations counts deactivations by reason.
	Deactivations map[Reason]int64
	// Panics counts the panics of methods, ticks and factories.
	Panics int64
	// Latency measures how long methods ran, for one call in eight. Queued measures how long calls waited for
	// their turn, for the calls that had to wait.
	Latency, Queued stats.Durations
}

// MethodStats counts the calls of one method that have ended on one node.
type MethodStats struct {
	Name  string // without the service's name
	Calls map[codes.Code]int64
	// Refused counts the calls that were not started: the object was busy, could not be activated, or waited
	// for the call, or the call's time ran out while it waited. Calls that went to another node do not count.
	Refused map[codes.Code]int64
}

// Activity describes one object on a node, for operators.
type Activity struct {
	Service string
	// State is "activating", "active" or "deactivating", or "waiting" if calls wait for the shard.
	State            string
	Epoch            int64
	Waiting, Running int
	// Age is the time since its activation began.
	Age time.Duration
}
