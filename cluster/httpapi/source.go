package httpapi

import (
	"net/http"

	"github.com/goverse/goverse/cluster"
)

// ClusterSource is a Source that stands for a cluster: what is read from etcd, and what changes something, goes
// through it. A Source that is a *cluster.Cluster need not be one.
type ClusterSource interface {
	// Cluster is nil while there is none yet.
	Cluster() *cluster.Cluster
}

// clusterOf is the cluster of a source. known is false for a source that has none to show.
func clusterOf(source Source) (c *cluster.Cluster, known bool) {
	switch s := source.(type) {
	case *cluster.Cluster:
		return s, true
	case ClusterSource:
		return s.Cluster(), true
	}
	return nil, false
}

// cluster is the cluster if it runs; else the request is answered.
func (a *api) cluster(w http.ResponseWriter, what string) *cluster.Cluster {
	c, known := clusterOf(a.source)
	switch st := a.source.Status(); {
	case !known:
		writeProblem(w, notShown, "this program shows no "+what+": ask a node of the cluster")
	case c == nil || !st.State.Running():
		unavailable(w, notRunning(st))
	default:
		return c
	}
	return nil
}
