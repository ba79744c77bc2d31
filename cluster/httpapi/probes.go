package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// retryAfter is in seconds. One is enough for a handover, and is the minimum of the header.
const retryAfter = "1"

// ViewAgeHeader holds the maximum age of the node's view of the cluster, in whole seconds, rounded up.
const ViewAgeHeader = "Goverse-View-Age"

// Reads is the body of /readyz/reads.
type Reads struct {
	Status string `json:"status"`
	// ViewAgeSeconds is the maximum age of the view: the view has every change that is older.
	ViewAgeSeconds float64 `json:"view_age_seconds"`
	// Current is false while the watch is lost, or this node has no session with etcd.
	Current bool `json:"current"`
}

// stalledAfter is the time that writing a line of the log may take before /livez reports it.
const stalledAfter = time.Second

// serveLivez also answers 200 while the log is not read. The node does not wait for its log, and a restarted node
// would have the same one.
func (a *api) serveLivez(w http.ResponseWriter, _ *http.Request) {
	says := probe{Status: "ok"}
	if st := a.source.Status().Log; st.StalledFor >= stalledAfter {
		says.Log = "stalled for " + st.StalledFor.Round(time.Second).String()
	}
	writeJSON(w, http.StatusOK, says)
}

func (a *api) serveReadyz(w http.ResponseWriter, _ *http.Request) {
	st := a.source.Status()
	if st.Ready {
		writeJSON(w, http.StatusOK, probe{Status: "ready"})
		return
	}
	writePlainProblem(w, http.StatusServiceUnavailable, "not ready: "+unreadyReason(st).Error())
}

// serveLeaderz is for load balancers that look for the leader: the status code alone is the result.
func (a *api) serveLeaderz(w http.ResponseWriter, _ *http.Request) {
	st := a.source.Status()
	if st.IsLeader {
		writeJSON(w, http.StatusOK, probe{Status: "leader"})
		return
	}
	w.Header().Set("Retry-After", retryAfter)
	writePlainProblem(w, http.StatusServiceUnavailable, "this node does not lead")
}

// serveReadyReads is for load balancers that send reads to this node. The node answers them from its view, also while
// etcd is away. With ?max_age=30s an older view is refused.
func (a *api) serveReadyReads(w http.ResponseWriter, r *http.Request) {
	st := a.source.Status()
	switch {
	case !st.State.Running():
		writePlainProblem(w, http.StatusServiceUnavailable, "not ready: "+notRunningError(st).Error())
		return
	case st.Stopping:
		writePlainProblem(w, http.StatusServiceUnavailable, "not ready: this node is stopping")
		return
	}
	age := max(time.Since(st.ViewSeen), 0)
	w.Header().Set(ViewAgeHeader, strconv.FormatInt(int64((age+time.Second-1)/time.Second), 10))
	if most := r.URL.Query().Get("max_age"); most != "" {
		limit, err := time.ParseDuration(most)
		switch {
		case err != nil || limit <= 0:
			writePlainProblem(w, http.StatusBadRequest, "max_age is no duration like 30s")
			return
		case age > limit:
			writePlainProblem(w, http.StatusServiceUnavailable, "not ready: the view of the cluster is "+
				age.Round(time.Millisecond).String()+" old")
			return
		}
	}
	writeJSON(w, http.StatusOK, Reads{Status: "ready", ViewAgeSeconds: age.Round(time.Millisecond).Seconds(),
		Current: st.Ready})
}

// serveReadyWrites is for load balancers that send writes to any node that knows the leader.
func (a *api) serveReadyWrites(w http.ResponseWriter, _ *http.Request) {
	st := a.source.Status()
	if st.ClusterReady {
		writeJSON(w, http.StatusOK, probe{Status: "ready"})
		return
	}
	if st.Ready {
		w.Header().Set("Retry-After", retryAfter)
	}
	writePlainProblem(w, http.StatusServiceUnavailable, "not ready: "+unreadyReason(st).Error())
}

// unreadyReason returns the reason why a node cannot take writes.
func unreadyReason(st cluster.Status) error {
	switch {
	case !st.State.Running():
		return notRunningError(st)
	case st.Stopping:
		return errors.New("this node is stopping")
	case !st.SessionValid:
		return errors.New("this node has no session; its log says why")
	case !st.Ready:
		return errors.New("the view of the cluster is being read anew")
	}
	return leaderelection.ErrNoLeader
}
