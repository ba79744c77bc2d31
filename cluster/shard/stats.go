package shard

import (
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

// Stats is a node's part in the shards, as figures. With sharding off all of them are zero.
type Stats struct {
	// Shards is how many there are.
	Shards int
	// What this node holds at present: shards that it acquires (OnAcquire runs), serves,
	// and releases. Serving is 0 while the session is not valid.
	Acquiring, Serving, Releasing int64
	// Waiting is how many are this node's, and still somebody else's to release.
	Waiting int

	// Counters since the start. Plans are the maps that this node wrote. Assigned are the
	// shards in them that had no owner alive, Drained those that left a member on its way
	// out, Rebalanced those that moved for an even load.
	Plans, Assigned, Drained, Rebalanced int64
	// PlanTime is how long the last of these maps took to compute, 0 before the first.
	PlanTime time.Duration
	// Pauses are those of the shards that came to this node by a move: from when it first
	// saw the move until it served the shard.
	Pauses stats.Durations
}
