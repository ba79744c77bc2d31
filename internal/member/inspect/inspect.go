// Package inspect gives Goverse's own tests and test kit access to the parts of a running cluster.Cluster that
// its handles do not show to users.
//
// Not promised: anything to programs that use Goverse. They cannot import it.
package inspect

import (
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// Node gives access to the parts of a cluster.Cluster.
type Node interface {
	// Snapshot returns the newest state of the cluster, or nil while the node does not run.
	Snapshot() *state.Snapshot
	// Session returns the node's present session, or nil between two sessions and while the node does not run.
	Session() *etcdsession.Session
	// Election returns the cluster's election, or nil while the node does not run.
	Election() *leaderelection.LeaderElection
}

// NodeOf returns the Node of a *cluster.Cluster. Package cluster sets it once, at initialization.
var NodeOf func(cluster any) Node

// Snapshot returns the snapshot of a *cluster.Cluster.
func Snapshot(cluster any) *state.Snapshot { return NodeOf(cluster).Snapshot() }

// Session returns the session of a *cluster.Cluster.
func Session(cluster any) *etcdsession.Session { return NodeOf(cluster).Session() }

// Election returns the election of a *cluster.Cluster.
func Election(cluster any) *leaderelection.LeaderElection { return NodeOf(cluster).Election() }
