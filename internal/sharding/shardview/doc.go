// Package shardview makes readable tables of the shards: their owners and open moves ([New]), and the plans
// that would follow if members came or went ([DryRun]).
//
// The package is pure: it works on a snapshot, and has no goroutine, no clock and no I/O.
//
// # What is not promised
//
// A table shows the owner of a shard, and whether it may serve, according to etcd at the snapshot's revision.
// Only the node itself can tell whether it does serve: its session must be valid, and its OnAcquire must have
// returned.
//
// A preview holds if nothing else happens meanwhile, if the planner uses the given settings, if its limit of
// moves per minute does not spread them, and if every move is done before the next plan.
package shardview
