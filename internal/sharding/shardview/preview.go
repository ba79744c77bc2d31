package shardview

import (
	"errors"
	"time"
)

// The errors of DryRun about what is to be supposed.
var (
	ErrUnknownNode = errors.New("no such node")
	ErrKnownNode   = errors.New("a node is registered at that address")
)

// Settings are the planner's as far as they matter. They are fields of cluster.Sharding.
type Settings struct {
	Window     time.Duration
	MinMembers int
	Exclude    map[string]string
}

// Change is what to suppose: members that stop, and others that join.
type Change struct {
	Leave []string // addresses
	Join  []Joiner
}

// Joiner is a member to suppose. Weight 0 is 1.
type Joiner struct {
	Address string
	Weight  int
}

// Preview is what the planner would do from now on.
type Preview struct {
	Count      int    `json:"count"`      // of all shards
	Generation int64  `json:"generation"` // of the present map, 0 if there is none
	Steps      []Step `json:"steps"`      // never nil; empty if nothing is to move
	// OpenMoves are the shards that the present map already moves and that are not released
	// yet: no plan touches them unless their new owner goes.
	OpenMoves int `json:"open_moves"`
	// Nodes are by address, never nil.
	Nodes []Load `json:"nodes"`
	// Remark is why nothing can be assigned, "" if that is not so.
	Remark string `json:"remark,omitempty"`
}

// Step is one map that would be written.
type Step struct {
	AfterSeconds float64    `json:"after_seconds"` // from now; 0: at once
	Assigned     int        `json:"assigned"`
	Drained      int        `json:"drained"`
	Rebalanced   int        `json:"rebalanced"`
	Transfers    []Transfer `json:"transfers"`
}

// Why says why a shard moves.
type Why string

// The reasons to move a shard.
const (
	Assigned   Why = "assigned"   // it has no owner alive
	Drained    Why = "drained"    // its owner leaves, is excluded, or takes no part
	Rebalanced Why = "rebalanced" // for an even load
)

// Transfer is what moves between two nodes in one step.
type Transfer struct {
	Why    Why    `json:"why"`
	From   string `json:"from"` // "" if nobody had them
	To     string `json:"to"`
	Count  int    `json:"count"`
	Shards string `json:"shards"`
}

// Load is how many shards a node has and will have.
type Load struct {
	Address string `json:"address"`
	Now     int    `json:"now"`
	Then    int    `json:"then"`
}
