// Package goverse is the root of the module and has no code: this page is the map. Goverse gives a replicated Go
// service exactly one leader, and each key exactly one owner, using only etcd.
//
// # Where to begin
//
//   - [github.com/goverse/goverse/cluster/leaderelection]: one leader among the copies of a program; needs only etcd.
//   - [github.com/goverse/goverse/node] and [github.com/goverse/goverse/cluster]: a node, which also has shards,
//     objects, locks, effects, named elections and the event log. Cluster is the front door to all of them.
//   - cmd/goversed: the same for programs of any language, and the operators' tool.
//
// README.md has a first program, and docs/start/tutorial.md a whole service.
//
// # With a cluster
//
//   - [github.com/goverse/goverse/cluster/objects]: gRPC services implemented for one key;
//     [github.com/goverse/goverse/cluster/objects/client] calls them from outside,
//     [github.com/goverse/goverse/cluster/objects/state] stores their state in PostgreSQL or etcd.
//   - [github.com/goverse/goverse/cluster/shard]: the shard of a key, and its owner.
//   - [github.com/goverse/goverse/cluster/lock] and [github.com/goverse/goverse/cluster/once]: locks with tokens, and
//     functions that run at most once.
//   - [github.com/goverse/goverse/cluster/processor]: events in order, in one process at a time.
//   - [github.com/goverse/goverse/cluster/leaderonly]: HTTP and gRPC requests that only the leader may answer.
//   - [github.com/goverse/goverse/cluster/consensusmanager]: what the cluster agrees on, as one node sees it.
//   - [github.com/goverse/goverse/cluster/event], [github.com/goverse/goverse/cluster/session] and
//     [github.com/goverse/goverse/cluster/stats]: the vocabulary of events, lost sessions and durations.
//
// # Around it
//
//   - [github.com/goverse/goverse/cluster/httpapi]: status, probes, metrics, admin calls and the dashboard over HTTP.
//   - [github.com/goverse/goverse/cluster/slogger]: the log, to log/slog.
//   - [github.com/goverse/goverse/node/mtls]: mutual TLS from files that are replaced while the program runs.
//   - [github.com/goverse/goverse/embedetcd]: an etcd in the process.
//   - [github.com/goverse/goverse/cluster/elector]: one leader over a PostgreSQL table, without etcd.
//   - [github.com/goverse/goverse/clustertest]: whole clusters in tests, with faults.
//
// It promises nothing; each package documents what it does not promise.
package goverse
