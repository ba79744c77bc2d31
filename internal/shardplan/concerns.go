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
	return before.ShardMap != now.ShardMap || !same(before.Members, now.Members) ||
		!same(before.Lingering, now.Lingering) || !same(before.Released, now.Released)
}

// same reports whether two lists of a snapshot, which are never written to, are one.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
