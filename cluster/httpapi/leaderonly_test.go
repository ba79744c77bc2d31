package httpapi

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/election"
)

var teapot = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

func TestLeaderOnlyPassesOnTheLeader(t *testing.T) {
	t.Parallel()
	f := leader()
	h := LeaderOnly(f, teapot, LeaderOnlyOptions{})
	require.Equal(t, http.StatusTeapot, call(h, http.MethodPost, "/work").Code)

	f.status.IsLeader = false
	require.Equal(t, http.StatusServiceUnavailable, call(h, http.MethodPost, "/work").Code, "asked anew for each request")
}

func TestLeaderOnlyRefusesElsewhere(t *testing.T) {
	t.Parallel()
	w := call(LeaderOnly(follower(), teapot, LeaderOnlyOptions{}), http.MethodPost, "/work")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"detail"`)
}

func TestLeaderOnlyRedirects(t *testing.T) {
	t.Parallel()
	f := follower()
	h := LeaderOnly(f, teapot, LeaderOnlyOptions{Redirect: true})
	for path, want := range map[string]string{
		"/work?a=b&c=d":      "http://127.0.0.1:48001/work?a=b&c=d",
		"/a%2Fb":             "http://127.0.0.1:48001/a%2Fb",
		"//example.com/work": "http://127.0.0.1:48001//example.com/work",
	} {
		w := call(h, http.MethodPost, path)
		require.Equal(t, http.StatusTemporaryRedirect, w.Code)
		require.Equal(t, want, w.Header().Get("Location"))
	}
	f.info.HTTPAddress = "https://leader.example:8443"
	require.Equal(t, "https://leader.example:8443/work", call(h, http.MethodGet, "/work").Header().Get("Location"))
}

func TestLeaderOnlyWithoutAKnownURL(t *testing.T) {
	t.Parallel()
	unknown, none, odd := follower(), follower(), follower()
	unknown.info.HTTPAddress = ""
	none.err = election.ErrNoLeader
	odd.info.HTTPAddress = "http://[::1"
	for _, f := range []*fake{unknown, none, odd} {
		w := call(LeaderOnly(f, teapot, LeaderOnlyOptions{Redirect: true}), http.MethodGet, "/work")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
	}
}
