package objects

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/stats"
)

// Stats holds the figures of the objects on one node. Counters start at 0 with the node.
type Stats struct {
	// Services lists the services that are registered on this node, by name.
	Services []ServiceStats `json:"services"`
	// Running is the number of running turns.
	Running int `json:"running"`
	// Local, Remote, Retried and Lost count calls that were made on this node: to objects on this node, to
	// objects on other nodes, sent again because the object had moved, and lost, so that it is not known
	// whether they ran.
	Local   int64 `json:"local"`
	Remote  int64 `json:"remote"`
	Retried int64 `json:"retried"`
	Lost    int64 `json:"lost"`
	// WaitingBytes is an upper bound of the bytes that wait in this node now: requests, parts of them, replies,
	// and streams that are not read. MaxWaitingBytes is their limit, and RefusedForBytes counts the calls and
	// streams refused because of it.
	WaitingBytes    int64 `json:"waiting_bytes"`
	MaxWaitingBytes int64 `json:"max_waiting_bytes"`
	RefusedForBytes int64 `json:"refused_for_bytes"`
}

// ServiceStats holds the figures of one service on one node.
type ServiceStats struct {
	Name string `json:"name"`
	// Active is the current number of activations, Waiting that of waiting calls.
	Active  int64 `json:"active"`
	Waiting int64 `json:"waiting"`
	// Methods lists the methods of the service, by name.
	Methods []MethodStats `json:"methods"`
	// Deactivations counts deactivations by reason.
	Deactivations map[Reason]int64 `json:"deactivations"`
	// Panics counts the panics of methods, ticks and factories.
	Panics int64 `json:"panics"`
	// Latency measures how long methods ran, for one call in eight. Queued measures how long calls waited for
	// their turn, for the calls that had to wait.
	Latency stats.Durations `json:"latency"`
	Queued  stats.Durations `json:"queued"`
}

// MethodStats counts the calls of one method that have ended on one node.
type MethodStats struct {
	Name  string               `json:"name"` // without the service's name
	Calls map[codes.Code]int64 `json:"calls"`
	// Refused counts the calls that were not started: the object was busy, could not be activated, or waited
	// for the call, or the call's time ran out while it waited. Calls that went to another node do not count.
	Refused map[codes.Code]int64 `json:"refused"`
}

// Activity describes one object on a node, for operators.
type Activity struct {
	Service string `json:"service"`
	// State is "activating", "active" or "deactivating", or "waiting" if calls wait for the shard.
	State   string `json:"state"`
	Epoch   int64  `json:"epoch"`
	Waiting int    `json:"waiting"`
	Running int    `json:"running"`
	// Age is the time since its activation began.
	Age time.Duration `json:"age_ns"`
}
