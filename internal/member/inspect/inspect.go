// Package inspect lets Goverse's own tests and test kit look inside a running
// cluster.Cluster, whose handles show users no more than they need.
//
// Not promised: anything to programs that use Goverse; they cannot import it.
package inspect

import (
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
)

// Node is the inside of a cluster.Cluster.
type Node interface {
	// Snapshot is the newest state of the cluster, nil while it does not run.
	Snapshot() *state.Snapshot
	// Session is the node's present session, nil between two and while it does not run.
	Session() *etcdsession.Session
	// Election is the cluster's own, nil while it does not run.
	Election() *leaderelection.LeaderElection
}

// Open is set by package cluster, and never changed after: it is given a *cluster.Cluster.
var Open func(cluster any) Node

// Snapshot is that of a *cluster.Cluster.
func Snapshot(cluster any) *state.Snapshot { return Open(cluster).Snapshot() }

// Session is that of a *cluster.Cluster.
func Session(cluster any) *etcdsession.Session { return Open(cluster).Session() }

// Election is that of a *cluster.Cluster.
func Election(cluster any) *leaderelection.LeaderElection { return Open(cluster).Election() }
