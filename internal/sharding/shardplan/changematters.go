package shardplan

import "github.com/goverse/goverse/internal/state"

// ChangeMatters reports whether a planner may decide differently on this snapshot than on the one before: the map,
// the members, the released shards, or the planner itself changed. While an outside candidate leads, the
// planner changes with the queue alone.
func ChangeMatters(before, now *state.Snapshot) bool {
	return ShardsChanged(before, now) || before.Planner() != now.Planner()
}

// ShardsChanged reports whether the members, the lingering members, the map, or the released shards changed.
func ShardsChanged(before, now *state.Snapshot) bool {
	return before.ShardMap != now.ShardMap || state.MembersChanged(before, now) ||
		!state.SameSlice(before.Released, now.Released)
}
