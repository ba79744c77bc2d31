// Package lifecycle holds errors that several public packages have in common, above all those
// of a node that does not run: one value for each, whichever package returns it. Packages
// cluster, election, lock and once show them under their own names.
//
// Not promised: anything else. It has no state.
package lifecycle

import "errors"

var (
	// ErrNotStarted: Start has not returned yet.
	ErrNotStarted = errors.New("the cluster is not started: Start has to return first")
	// ErrStopped: Stop was called.
	ErrStopped = errors.New("the node has stopped, or is stopping")
	// ErrShardingOff: the node takes no part in the shards.
	ErrShardingOff = errors.New("this node takes no part in the shards, because Sharding.Off is set")
	// ErrBadName: a name that keys in etcd cannot be made of.
	ErrBadName = errors.New("bad name")
)
