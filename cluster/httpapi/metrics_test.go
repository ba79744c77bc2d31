package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
)

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := call(h, http.MethodGet, "/metrics")
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	text := scrape(t, New(leader(), Options{Version: "v1"}))
	for _, line := range []string{
		"goverse_is_leader 1", "goverse_has_leader 1", "goverse_leader_token 7", "goverse_ready " +
			"1", "goverse_cluster_ready 1", "goverse_cluster_size 2",
		"goverse_queue_length 2", "goverse_mode_fallback 0", "goverse_election_failed 0", "goverse_session_valid " +
			"1", "goverse_snapshot_revision 9",
		"goverse_terms_total 2", "goverse_sessions_lost_total 3", "goverse_mirror_rebuilds_total 4",
		`goverse_build_info{version="v1"} 1`,
		"goverse_crash_watches 2", "goverse_crash_watchers 3", "goverse_crash_accusations_total " +
			"11", "goverse_crash_removals_total 12", "goverse_crash_refuted_total 13",
		"goverse_crash_armed_watchers 2", "goverse_crash_acknowledgements_missing 1",
		"goverse_crash_silence_removals_total 5",
		"goverse_crash_refutations_total 14", "goverse_crash_watchers_lost_total 15",
		"# TYPE goverse_terms_total counter", "# TYPE goverse_is_leader gauge",
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Regexp(t, `(?m)^goverse_session_remaining_seconds [78]\.`, text)
	require.Contains(t, text, "go_goroutines ")
	require.Contains(t, text, "process_open_fds ")
}

func TestMetricsFollowTheSource(t *testing.T) {
	t.Parallel()
	f := leader()
	h := New(f, Options{})
	require.Contains(t, scrape(t, h), "goverse_is_leader 1\n")
	f.status.IsLeader, f.status.LeaderID, f.status.Mode = false, "", leaderelection.ModeFallback
	f.status.Deadline, f.status.ElectionFailed = time.Now().Add(-time.Second), "denied"
	text := scrape(t, h)
	for _, line := range []string{"goverse_is_leader 0", "goverse_has_leader 0", "goverse_mode_fallback 1",
		"goverse_session_remaining_seconds 0", "goverse_election_failed 1"} {
		require.Contains(t, text, line+"\n")
	}
}

// A file's name may have bytes that are not UTF-8, which a label must not have.
func TestMetricsOfAFileWithAStrangeName(t *testing.T) {
	t.Parallel()
	text := scrape(t, New(leader(), Options{Certificates: func() []Certificate {
		return []Certificate{{Use: "http", File: "/tls/\xff.pem", NotAfter: time.Unix(1800000000, 0)}}
	}}))
	require.Contains(t, text,
		"goverse_certificate_expiry_timestamp_seconds{file=\"/tls/\uFFFD.pem\",use=\"http\"} 1.8e+09\n")
}

// Two nodes in one process must not share a registry.
func TestMetricsOfTwoNodes(t *testing.T) {
	t.Parallel()
	one, other := New(leader(), Options{}), New(follower(), Options{})
	require.True(t, strings.Contains(scrape(t, one), "goverse_is_leader 1\n"))
	require.True(t, strings.Contains(scrape(t, other), "goverse_is_leader 0\n"))
}
