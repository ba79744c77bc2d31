package shardview

import (
	"errors"
	"time"
)

// The errors of DryRun about the supposed changes.
var (
	ErrUnknownNode = errors.New("no such node")
	ErrKnownNode   = errors.New("a node is registered at that address")
)

// Settings holds the planner's settings that affect a preview. They are fields of cluster.Sharding.
type Settings struct {
	Window     time.Duration
	MinMembers int
	Exclude    map[string]string
}

// SupposedChange is a supposed change: members that stop, and others that join.
type SupposedChange struct {
	Leave []string // addresses
	Join  []Joiner
}

// Joiner is a supposed member. Weight 0 counts as 1.
type Joiner struct {
	Address string
	Weight  int
}

// Preview lists the actions of the planner from now on.
type Preview struct {
	Count      int        `json:"count"`      // number of shards
	Generation int64      `json:"generation"` // of the present map, 0 if there is none
	Steps      []PlanStep `json:"steps"`      // never nil; empty if no shard moves
	// OpenMoves is the number of shards that the present map is already moving and that are not released yet.
	// No plan changes them unless their new owner goes.
	OpenMoves int `json:"open_moves"`
	// Nodes is sorted by address, and never nil.
	Nodes []NodeLoad `json:"nodes"`
	// Remark explains why nothing can be assigned, "" if something can.
	Remark string `json:"remark,omitempty"`
}

// PlanStep is one map that would be written.
type PlanStep struct {
	AfterSeconds float64    `json:"after_seconds"` // from now; 0: immediately
	Assigned     int        `json:"assigned"`
	Drained      int        `json:"drained"`
	Rebalanced   int        `json:"rebalanced"`
	Transfers    []Transfer `json:"transfers"`
}

// Reason is the reason why a shard moves.
type Reason string

// The reasons to move a shard.
const (
	Assigned   Reason = "assigned"   // it had no living owner
	Drained    Reason = "drained"    // its owner leaves, is excluded, or takes no part
	Rebalanced Reason = "rebalanced" // to even out the load
)

// Transfer is the group of shards that move between two nodes in one step for one reason.
type Transfer struct {
	Reason Reason `json:"why"`
	From   string `json:"from"` // "" if they had no owner
	To     string `json:"to"`
	Count  int    `json:"count"`
	Shards string `json:"shards"`
}

// NodeLoad is the number of shards of a node, now and afterwards.
type NodeLoad struct {
	Address string `json:"address"`
	Now     int    `json:"now"`
	Then    int    `json:"then"`
}
