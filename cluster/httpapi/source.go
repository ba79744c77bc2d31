package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
)

// A Source shows more if it implements some of these interfaces. *pgnode.Node implements all of them. For a Source
// with a cluster, that answers.
type (
	// NodeSource is a Source that lists the nodes, for /cluster/nodes.
	NodeSource interface {
		// MemberTable returns the node's view of the members. It must not block.
		MemberTable() (cluster.MemberTable, error)
	}
	// EventSource is a Source with an event log, for /cluster/events and its stream.
	EventSource interface {
		// EventLog returns the log. It must not block.
		EventLog() event.Log
	}
	// ElectionSource is a Source that lists elections, for /cluster/elections.
	ElectionSource interface {
		// ListElections reads the elections that q selects; more reports whether others follow.
		ListElections(ctx context.Context, q leaderelection.Query) (found []leaderelection.Standing, more bool, err error)
	}
	// LockSource is a Source that lists locks, for /cluster/locks.
	LockSource interface {
		// ListLocks reads the locks that q selects; more reports whether others follow.
		ListLocks(ctx context.Context, q lock.Query) (found []lock.Standing, more bool, err error)
	}
	// ChangeSource is a Source that signals changes, for /cluster/stream. Other sources are looked at once a second.
	ChangeSource interface {
		// SignalChanges returns a channel that signals changes. It closes when ctx ends or the node stops.
		SignalChanges(ctx context.Context) (<-chan struct{}, error)
	}
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

// clusterSource lets a cluster implement the interfaces that its own methods do not.
type clusterSource struct{ *cluster.Cluster }

// EventLog implements EventSource.
func (s clusterSource) EventLog() event.Log { return s.Events() }

// ListElections implements ElectionSource.
func (s clusterSource) ListElections(ctx context.Context, q leaderelection.Query) ([]leaderelection.Standing, bool,
	error) {
	return s.Elections().List(ctx, q)
}

// ListLocks implements LockSource.
func (s clusterSource) ListLocks(ctx context.Context, q lock.Query) ([]lock.Standing, bool, error) {
	return s.Locks().List(ctx, q)
}

// runningSource returns the part of the source that shows something, which a cluster can, too. If there is none, or the
// node does not run, it answers the request and returns false.
func runningSource[T any](a *api, w http.ResponseWriter, what string) (found T, ok bool) {
	if _, known := clusterOf(a.source); !known {
		if found, ok = a.source.(T); ok {
			st := a.source.Status()
			if ok = st.State.Running(); !ok {
				writeUnavailable(w, notRunningError(st))
			}
			return found, ok
		}
	}
	if c := a.runningCluster(w, what); c != nil {
		found, ok = any(clusterSource{c}).(T)
	}
	return found, ok
}

// changesOf returns the signals of changes of a source, nil if it signals none now.
func changesOf(ctx context.Context, source Source) (changed <-chan struct{}) {
	from, ok := source.(ChangeSource)
	if c, known := clusterOf(source); known {
		from, ok = c, c != nil
	}
	if ok {
		changed, _ = from.SignalChanges(ctx) // fails for a node that does not run, which changes only by starting
	}
	return changed
}

// Values of Status.Store.
const (
	// StoreEtcd means that the node is one of a cluster in etcd.
	StoreEtcd = "etcd"
	// StorePostgreSQL means that the node is one of package pgnode: it has no shards, objects and figures to show.
	StorePostgreSQL = "postgresql"
)

// storeOf returns the kind of store that a source's cluster is in.
func storeOf(source Source) string {
	if _, known := clusterOf(source); !known {
		if _, listsNodes := source.(NodeSource); listsNodes {
			return StorePostgreSQL
		}
	}
	return StoreEtcd
}

// errNoCluster is the error of an admin call that only a cluster in etcd can carry out.
var errNoCluster = errors.New("this node has no cluster in etcd, which alone can do that")

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
