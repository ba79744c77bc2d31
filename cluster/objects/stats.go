package objects

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/stats"
)

// Stats is a node's part in the objects, as figures. Counters are since the start.
type Stats struct {
	// Services are those registered on this node, by name.
	Services []ServiceStats
	// Running is how many turns run.
	Running int
	// Calls that were made on this node: to objects here, to objects on other nodes, sent anew because their object
	// had moved, and lost: nobody knows whether they ran.
	Local, Remote, Retried, Lost int64
	// WaitingBytes is how many bytes wait in this node at most: requests, parts of them, replies and streams that are not
	// read. MaxWaitingBytes is how many may, and RefusedForBytes how many calls and streams were refused for it.
	WaitingBytes, MaxWaitingBytes, RefusedForBytes int64
}

// ServiceStats is one service on one node.
type ServiceStats struct {
	Name string
	// What there is at present: activations, and calls that wait.
	Active, Waiting int64
	// Methods are those of the service, by name.
	Methods []MethodStats
	// Deactivations by reason.
	Deactivations map[Reason]int64
	// Panics of methods, ticks and factories.
	Panics int64
	// Latency is for how long methods ran, of one call of eight. Queued is for how long calls waited for their turn,
	// of those that had to wait.
	Latency, Queued stats.Durations
}

// MethodStats are the calls of one method that have ended on one node.
type MethodStats struct {
	Name  string // without the service's
	Calls map[codes.Code]int64
	// Refused are those that were not started: their object was busy, could not be activated, or waited for them, or
	// their time was up while they waited. Those that went to another node are not among them.
	Refused map[codes.Code]int64
}

// Activity is one object of a node, for operators.
type Activity struct {
	Service string
	// State is "activating", "active" or "deactivating", or "waiting" where calls wait for the shard.
	State            string
	Epoch            int64
	Waiting, Running int
	// Age is for how long it has been there.
	Age time.Duration
}
