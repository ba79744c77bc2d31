package httpapi

import (
	"net/http"

	"github.com/goverse/goverse/cluster"
)

// ClusterSource is a Source that provides a cluster. Requests that read etcd, or change something, use that
// cluster. A Source that is a *cluster.Cluster need not implement it.
type ClusterSource interface {
	// Cluster returns the cluster, nil while there is none yet.
	Cluster() *cluster.Cluster
}

// clusterOf returns the cluster of a source. known is false if the source has none to show.
func clusterOf(source Source) (c *cluster.Cluster, known bool) {
	switch s := source.(type) {
	case *cluster.Cluster:
		return s, true
	case ClusterSource:
		return s.Cluster(), true
	}
	return nil, false
}

// runningCluster returns the cluster if it runs; otherwise it answers the request and returns nil.
func (a *api) runningCluster(w http.ResponseWriter, what string) *cluster.Cluster {
	c, known := clusterOf(a.source)
	switch st := a.source.Status(); {
	case !known:
		writeProblem(w, notShownKind, "this program shows no "+what+": ask a node of the cluster")
	case c == nil || !st.State.Running():
		writeUnavailable(w, notRunningError(st))
	default:
		return c
	}
	return nil
}
