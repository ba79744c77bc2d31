package shard

import (
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

// Stats holds the figures of one node's shards. With sharding off, all of them are zero.
type Stats struct {
	// Shards is the number of shards in the cluster.
	Shards int `json:"shards"`
	// Acquiring, Serving and Releasing count the shards that this node holds now: those for which OnAcquire
	// runs, those it serves, and those it releases. Serving is 0 while the session is not valid.
	Acquiring int64 `json:"acquiring"`
	Serving   int64 `json:"serving"`
	Releasing int64 `json:"releasing"`
	// Waiting counts the shards that the map assigns to this node and that another node has yet to release.
	Waiting int `json:"waiting"`

	// The following counters start at 0 with the node. Plans counts the maps that this node wrote. In those
	// maps, Assigned counts the shards that had no living owner, Drained those that left a member on its way
	// out, and Rebalanced those that moved to even the load.
	Plans      int64 `json:"plans"`
	Assigned   int64 `json:"assigned"`
	Drained    int64 `json:"drained"`
	Rebalanced int64 `json:"rebalanced"`
	// PlanTime is the time that computing the latest of these maps took; 0 before the first.
	PlanTime time.Duration `json:"plan_time_ns"`
	// Pauses measures, for each shard that moved to this node, the time from when the node first saw the move
	// until it served the shard.
	Pauses stats.Durations `json:"pauses"`
}
