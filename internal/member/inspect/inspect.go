// Package inspect gives Goverse's own tests and test kit access to the parts of a running cluster.Cluster that
// its handles do not show to users.
//
// Not promised: anything to programs that use Goverse. They cannot import it.
package inspect

import (
	"context"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/state"
)

// Access returns the member that a cluster runs, or nil while it does not run. A cluster.Cluster embeds it. Its only
// method is unexported, so this package can call it and users cannot.
type Access func() *member.Member

func (a Access) runningMember() *member.Member { return a() }

// memberOf returns the member that a *cluster.Cluster runs, or nil.
func memberOf(cluster any) *member.Member {
	return cluster.(interface{ runningMember() *member.Member }).runningMember()
}

// Snapshot returns the newest state that a *cluster.Cluster has of the cluster, or nil while it does not run.
func Snapshot(cluster any) *state.Snapshot {
	if m := memberOf(cluster); m != nil {
		return m.Mirror.Snapshot()
	}
	return nil
}

// Session returns the present session of a *cluster.Cluster, or nil between two sessions and while it does not run.
func Session(cluster any) *etcdsession.Session {
	if m := memberOf(cluster); m != nil {
		return m.Keeper.Current()
	}
	return nil
}

// Election returns the election of a *cluster.Cluster, or nil while it does not run.
func Election(cluster any) *leaderelection.LeaderElection {
	if m := memberOf(cluster); m != nil {
		return m.Consensus.Election()
	}
	return nil
}

// Withdraw takes the node of a running *cluster.Cluster out of the election for good.
func Withdraw(ctx context.Context, cluster any) error {
	return memberOf(cluster).Consensus.Withdraw(ctx)
}
