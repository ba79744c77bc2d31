package shardplan

import "github.com/goverse/goverse/internal/state"

// Concerns reports whether a snapshot can make a planner decide otherwise than the one
// before: what is assigned, among whom, what was released, or whose duty it is changed.
// Beside a leader from outside the duty changes with the queue alone.
func Concerns(before, now *state.Snapshot) bool {
	return ShardsChanged(before, now) || before.Planner() != now.Planner()
}

// ShardsChanged reports whether the members, who of them lingers, the map, or what was released
// changed.
func ShardsChanged(before, now *state.Snapshot) bool {
	return before.ShardMap != now.ShardMap || !state.Same(before.Members, now.Members) ||
		!state.Same(before.Lingering, now.Lingering) || !state.Same(before.Released, now.Released)
}
