package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
)

func code(f *fake, path string) int {
	return call(New(f, Options{}), http.MethodHead, path).Code
}

func TestLeaderz(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		require.Equal(t, http.StatusOK, call(New(leader(), Options{}), method, "/leaderz").Code)
		for _, f := range []*fake{follower(), starting(), stopped()} {
			require.Equal(t, http.StatusServiceUnavailable, call(New(f, Options{}), method, "/leaderz").Code)
		}
	}
}

func TestReadyForReads(t *testing.T) {
	t.Parallel()
	f := follower()
	f.status.ViewSeen = time.Now().Add(-1500 * time.Millisecond)
	status, body := get(t, f, "/readyz/reads")
	require.Equal(t, http.StatusOK, status)
	require.InDelta(t, 1.5, body["view_age_seconds"], 20)
	require.GreaterOrEqual(t, body["view_age_seconds"], 1.5)
	require.Equal(t, true, body["current"])
	require.NotEqual(t, "0", call(New(f, Options{}), http.MethodGet, "/readyz/reads").Header().Get(ViewAgeHeader))

	f.status.ViewSeen = time.Now().Add(-time.Hour) // etcd is away
	f.status.Ready, f.status.ClusterReady, f.status.SessionValid = false, false, false
	status, body = get(t, f, "/readyz/reads")
	require.Equal(t, http.StatusOK, status, "the view is there still")
	require.Equal(t, false, body["current"])
	require.Equal(t, http.StatusServiceUnavailable, code(f, "/readyz/reads?max_age=30s"))
	require.Equal(t, http.StatusOK, code(f, "/readyz/reads?max_age=2h"))
	require.Equal(t, http.StatusBadRequest, code(f, "/readyz/reads?max_age=old"))
	require.Equal(t, http.StatusBadRequest, code(f, "/readyz/reads?max_age=-1s"))

	f.status.Stopping = true
	for _, f := range []*fake{f, starting(), stopped()} {
		require.Equal(t, http.StatusServiceUnavailable, code(f, "/readyz/reads"))
	}
}

func TestReadyForWrites(t *testing.T) {
	t.Parallel()
	require.Equal(t, http.StatusOK, code(follower(), "/readyz/writes"))
	require.Equal(t, http.StatusOK, code(leader(), "/readyz/writes"))
	for why, change := range map[string]func(*cluster.Status){
		"no leader":  func(st *cluster.Status) { st.LeaderID = "" },
		"no session": func(st *cluster.Status) { st.Ready, st.SessionValid = false, false },
		"read anew":  func(st *cluster.Status) { st.Ready = false },
		"stopping":   func(st *cluster.Status) { st.Ready, st.Stopping = false, true },
		"starting":   func(st *cluster.Status) { st.Ready, st.State = false, cluster.StateStarting },
		"stopped":    func(st *cluster.Status) { st.Ready, st.State = false, cluster.StateStopped },
	} {
		f := follower()
		f.status.ClusterReady = false
		change(&f.status)
		status, body := get(t, f, "/readyz/writes")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, body["detail"], why)
	}
}
