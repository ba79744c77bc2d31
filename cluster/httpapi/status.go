package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// Status is the body of /cluster/status.
type Status struct {
	NodeID       string   `json:"node_id"`       // advertise address
	State        string   `json:"state"`         // starting, follower, candidate, leader or stopped
	IsLeader     bool     `json:"is_leader"`     // at this instant
	LeaderID     string   `json:"leader_id"`     // "" if there is none
	Term         int64    `json:"term"`          // the same number as Token
	Token        int64    `json:"token"`         // fencing token of the leader's term, 0 if there is none
	Mode         string   `json:"mode"`          // election or fallback
	ClusterSize  int      `json:"cluster_size"`  // registered nodes
	Ready        bool     `json:"ready"`         // this node can take on work
	ClusterReady bool     `json:"cluster_ready"` // this node is ready and a leader is known
	Queue        []string `json:"queue"`         // addresses, first come first
	Nodes        []string `json:"nodes"`         // addresses in order
	Revision     int64    `json:"revision"`
	Store        string   `json:"store"`        // of the cluster: etcd or postgresql
	AdminCalls   bool     `json:"admin_calls"`  // this node accepts them, from authorized callers
	SilentNodes  int      `json:"silent_nodes"` // registered nodes that do not answer their watchers
	// LeaderSilentSeconds is the time for which the leader has not answered, 0 if it does.
	LeaderSilentSeconds int64   `json:"leader_silent_seconds"`
	Crashes             Crashes `json:"crashes"`
	Log                 Log     `json:"log"`
}

// Log is the state of the queue in front of the node's log.
type Log struct {
	Waiting           int     `json:"waiting"`             // lines
	Lost              int64   `json:"lost"`                // lines, because too many waited
	StalledForSeconds float64 `json:"stalled_for_seconds"` // time that the line being written has taken so far
}

// Crashes counts what crash detection observed and did on this node since its start.
type Crashes struct {
	Watches  int64 `json:"watches"`  // other nodes that this node currently watches
	Watchers int   `json:"watchers"` // other nodes that currently watch this node
	// SilenceTimeoutSeconds is the time within which another node replaces this one when it stands still, if any watcher
	// is armed; 0 without a silence time-out.
	SilenceTimeoutSeconds float64 `json:"silence_timeout_seconds"`
	// ArmedWatchers counts the nodes that may accuse this one of silence. Proof is the reason why none of them can have
	// removed it for that: acknowledged (by all of them), read (etcd has answered), lapsed (none, so this node claims
	// nothing), or empty without such watchers.
	ArmedWatchers int    `json:"armed_watchers"`
	Proof         string `json:"proof"`
	Accusations   int64  `json:"accusations"`   // by this node
	Removals      int64  `json:"removals"`      // of accused nodes
	Refuted       int64  `json:"refuted"`       // by the accused nodes, which are alive
	Refutations   int64  `json:"refutations"`   // by this node, when it was accused
	WatchersLost  int64  `json:"watchers_lost"` // watchers that this node lost
	// SilenceAccusations and SilenceRemovals count the accusations and removals for silence among them.
	SilenceAccusations int64 `json:"silence_accusations"`
	SilenceRemovals    int64 `json:"silence_removals"`
	// LastGracePeriodSeconds is the time that the node last removed by this one had to refute the accusation.
	LastGracePeriodSeconds float64 `json:"last_grace_period_seconds"`
}

// Leader is the body of /cluster/leader.
type Leader struct {
	LeaderID   string     `json:"leader_id"`
	Term       int64      `json:"term"` // the same number as Token
	Token      int64      `json:"token"`
	AcquiredAt *time.Time `json:"acquired_at,omitempty"` // absent if unknown
	RenewedAt  *time.Time `json:"renewed_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	Hostname   string     `json:"hostname"`
	APIURL     string     `json:"api_url"` // "" if the leader serves none
	// Estimated reports whether the times come from etcd's lease, to the second, and may be a second old. Absent
	// on the leader itself, which is exact.
	Estimated bool `json:"estimated,omitempty"`
}

// Health is the body of /cluster/health.
type Health struct {
	Status       string    `json:"status"`     // healthy or degraded
	Clustering   bool      `json:"clustering"` // this node takes part in a cluster
	NodeID       string    `json:"node_id"`
	State        string    `json:"state"`
	IsLeader     bool      `json:"is_leader"`
	LeaderID     string    `json:"leader_id"`
	ClusterSize  int       `json:"cluster_size"`
	ClusterReady bool      `json:"cluster_ready"`
	Timestamp    time.Time `json:"timestamp"`
	Version      string    `json:"version"`
}

// Values of Health.Status.
const (
	// HealthHealthy means that a leader is known, the view is fresh, and the election works.
	HealthHealthy = "healthy"
	// HealthDegraded means anything else; /cluster/status has the details.
	HealthDegraded = "degraded"
)

type probe struct {
	Status string `json:"status"`
	Log    string `json:"log,omitempty"` // of /livez: how long the log has not accepted a line
}

// notRunningError returns the error for a node that is not part of its cluster.
func notRunningError(st cluster.Status) error {
	if st.State == cluster.StateStopped {
		return cluster.ErrStopped
	}
	return errStarting
}

func (a *api) serveStatus(w http.ResponseWriter, _ *http.Request) {
	st := newStatus(a.source.Status())
	st.AdminCalls, st.Store = a.opts.Admin != nil, storeOf(a.source)
	writeJSON(w, http.StatusOK, st)
}

func newStatus(st cluster.Status) Status {
	return Status{
		NodeID: st.NodeID, State: string(st.State), IsLeader: st.IsLeader,
		LeaderID: st.LeaderID, Term: st.Token, Token: st.Token, Mode: string(st.Mode),
		ClusterSize: len(st.Nodes), Ready: st.Ready, ClusterReady: st.ClusterReady,
		Queue: append([]string{}, st.Queue...), Nodes: append([]string{}, st.Nodes...),
		Revision: st.Revision, SilentNodes: st.SilentNodes, LeaderSilentSeconds: int64(st.LeaderSilent.Seconds()),
		Log: Log{Waiting: st.Log.Waiting, Lost: int64(st.Log.Lost),
			StalledForSeconds: st.Log.StalledFor.Round(time.Millisecond).Seconds()},
		Crashes: Crashes{Watches: st.Crashes.Watching, Watchers: st.Watchers, Accusations: st.Crashes.Accusations,
			Removals: st.Crashes.Removals, SilenceTimeoutSeconds: st.SilenceTimeout.Seconds(),
			ArmedWatchers: st.ArmedWatchers, Proof: string(st.Proof),
			SilenceAccusations: st.Crashes.SilenceAccusations, SilenceRemovals: st.Crashes.SilenceRemovals,
			Refuted: st.Crashes.Refuted, Refutations: st.Crashes.Refutations, WatchersLost: st.Crashes.WatchersLost,
			LastGracePeriodSeconds: st.Crashes.LastGracePeriod.Seconds()},
	}
}

func (a *api) serveLeader(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), a.opts.LeaderTimeout)
	defer cancel()
	info, err := a.source.LeaderInfo(ctx)
	if err == nil && info.Address == "" {
		err = leaderelection.ErrNoLeader
	}
	if err != nil {
		writeUnavailable(w, err)
		return
	}
	writeJSON(w, http.StatusOK, Leader{
		LeaderID: info.Address, Term: info.Token, Token: info.Token,
		AcquiredAt: timeOrNil(info.AcquiredAt), RenewedAt: timeOrNil(info.RenewedAt), ExpiresAt: timeOrNil(info.ExpiresAt),
		Hostname: info.Hostname, APIURL: apiURL(info.HTTPAddress), Estimated: info.Estimated,
	})
}

// timeOrNil returns nil for an unknown time, which would otherwise be shown as year 1.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// serveHealth also answers 200 when degraded, because the report itself is the result.
func (a *api) serveHealth(w http.ResponseWriter, _ *http.Request) {
	st := a.source.Status()
	body := Health{
		Status: HealthDegraded, Clustering: st.State.Running(), NodeID: st.NodeID,
		State: string(st.State), IsLeader: st.IsLeader, LeaderID: st.LeaderID, ClusterSize: len(st.Nodes),
		ClusterReady: st.ClusterReady, Timestamp: time.Now().UTC(), Version: a.opts.Version,
	}
	if st.ClusterReady && st.Mode == leaderelection.ModeElection && st.ElectionFailed == "" {
		body.Status = HealthHealthy
	}
	writeJSON(w, http.StatusOK, body)
}
