// Package shardview makes tables of the shards for people: who owns which, what is on
// its way ([New]), and what the planner would do if members came or went ([DryRun]).
//
// Everything here is pure: it works on a snapshot, and has no goroutine, no clock and
// no I/O.
//
// # What is not promised
//
// A table says who owns a shard and who may serve it according to etcd at the snapshot's
// revision. Whether a node does serve it, only that node knows: its session must be
// valid, and its OnAcquire must have returned.
//
// A preview holds if nothing else happens meanwhile, if the planner goes by the
// settings that were given, if its bound of moves per minute does not spread them, and if every move
// it begins is done before its next plan.
package shardview
