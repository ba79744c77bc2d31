package httpapi

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
)

func TestStatusOfAFollower(t *testing.T) {
	t.Parallel()
	code, body := get(t, follower(), "/cluster/status")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, map[string]any{
		"node_id": followerAt, "state": "candidate", "is_leader": false, "leader_id": leaderAt, "term": 7.0, "token": 7.0,
		"mode": "election", "cluster_size": 2.0, "ready": true, "cluster_ready": true, "admin_calls": false,
		"store": "etcd",
		"queue": []any{leaderAt, followerAt}, "nodes": []any{leaderAt, followerAt}, "revision": 9.0,
		"silent_nodes": 0.0, "leader_silent_seconds": 0.0,
		"log": map[string]any{"waiting": 0.0, "lost": 0.0, "stalled_for_seconds": 0.0},
		"crashes": map[string]any{"watches": 2.0, "watchers": 3.0, "accusations": 11.0, "removals": 12.0, "refuted": 13.0,
			"refutations": 14.0, "watchers_lost": 15.0,
			"armed_watchers": 2.0, "silence_timeout_seconds": 3.5, "proof": "read",
			"silence_accusations": 6.0, "silence_removals": 5.0, "last_grace_period_seconds": 0.15},
	}, body)
}

func TestListsAreNeverNull(t *testing.T) {
	t.Parallel()
	code, body := get(t, starting(), "/cluster/status")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, []any{}, body["queue"])
	require.Equal(t, []any{}, body["nodes"])
	require.Equal(t, "starting", body["state"])
	require.Equal(t, "", body["leader_id"])
}

func TestLeaderIsEstimatedElsewhereOnly(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"leader_id": leaderAt, "term": 7.0, "token": 7.0, "hostname": "host", "api_url": "http://127.0.0.1:48001",
		"acquired_at": "2026-01-02T03:04:05Z", "renewed_at": "2026-01-02T03:04:06Z", "expires_at": "2026-01-02T03:04:16Z",
	}
	code, body := get(t, leader(), "/cluster/leader")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, want, body)

	want["estimated"] = true
	_, body = get(t, follower(), "/cluster/leader")
	require.Equal(t, want, body)
}

func TestUnknownTimesAreLeftOut(t *testing.T) {
	t.Parallel()
	f := follower()
	f.info.AcquiredAt, f.info.RenewedAt, f.info.ExpiresAt = time.Time{}, time.Time{}, time.Time{}
	f.info.HTTPAddress = ""
	_, body := get(t, f, "/cluster/leader")
	require.Equal(t, map[string]any{"leader_id": leaderAt, "term": 7.0, "token": 7.0, "hostname": "host", "api_url": "",
		"estimated": true}, body)
}

func TestNoLeaderIs503InOneLine(t *testing.T) {
	t.Parallel()
	f := follower()
	f.info = cluster.LeaderInfo{}
	for _, err := range []error{nil, leaderelection.ErrNoLeader,
		errors.Join(leaderelection.ErrNoLeader, errors.New("and more"))} {
		f.err = err
		code, body := get(t, f, "/cluster/leader")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, body["detail"], "no leader")
		require.NotContains(t, body["detail"], "\n")
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	code, body := get(t, leader(), "/cluster/health")
	require.Equal(t, http.StatusOK, code)
	stamp, err := time.Parse(time.RFC3339Nano, body["timestamp"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), stamp, time.Minute)
	delete(body, "timestamp")
	require.Equal(t, map[string]any{
		"status": "healthy", "clustering": true, "node_id": leaderAt, "state": "leader", "is_leader": true,
		"leader_id":    leaderAt,
		"cluster_size": 2.0, "cluster_ready": true, "version": "v1",
	}, body)
}

func TestHealthIsDegraded(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*cluster.Status){
		"not ready":       func(st *cluster.Status) { st.ClusterReady = false },
		"fallback":        func(st *cluster.Status) { st.Mode = leaderelection.ModeFallback },
		"election failed": func(st *cluster.Status) { st.ElectionFailed = "denied" },
	} {
		f := follower()
		spoil(&f.status)
		code, body := get(t, f, "/cluster/health")
		require.Equal(t, http.StatusOK, code, name)
		require.Equal(t, "degraded", body["status"], name)
	}
	_, body := get(t, starting(), "/cluster/health")
	require.Equal(t, false, body["clustering"])
}

func TestProbes(t *testing.T) {
	t.Parallel()
	code, _ := get(t, starting(), "/livez")
	require.Equal(t, http.StatusOK, code)
	code, _ = get(t, follower(), "/readyz")
	require.Equal(t, http.StatusOK, code)

	noLeader := follower()
	noLeader.status.LeaderID, noLeader.status.ClusterReady = "", false
	code, _ = get(t, noLeader, "/readyz")
	require.Equal(t, http.StatusOK, code, "a node can serve while nobody leads")

	noSession, stopping, stale := follower(), follower(), follower()
	noSession.status.SessionValid = false
	stopping.status.Stopping = true
	for reason, f := range map[string]*fake{"starting": starting(), "has stopped": stopped(), "session": noSession,
		"stopping": stopping, "read anew": stale} {
		f.status.Ready = false
		code, body := get(t, f, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, body["detail"], reason)
	}
}
