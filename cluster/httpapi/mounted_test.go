package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/problem"
)

// Below a prefix, in a mux with other routes, everything works as at the root, including names in paths.
func TestMountedBelowAPrefix(t *testing.T) {
	t.Parallel()
	c, h, _ := administered(t)
	e, err := c.Node(0).Cluster().Elections().Stand("a/b")
	require.NoError(t, err)
	c.Eventually(e.IsLeader, "it leads")
	mux := http.NewServeMux()
	mux.Handle("/", http.NotFoundHandler())
	mux.Handle("/internal/node/", http.StripPrefix("/internal/node", h))
	at := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	get := func(path string) *httptest.ResponseRecorder {
		return at(httptest.NewRequest(http.MethodGet, path, nil))
	}
	require.Equal(t, http.StatusOK, get("/internal/node/cluster/status").Code)
	require.Equal(t, http.StatusOK, get("/internal/node/livez").Code)
	require.Equal(t, http.StatusNotFound, get("/cluster/status").Code)
	require.Equal(t, "text/html; charset=utf-8", get("/internal/node/").Header().Get("Content-Type"))
	require.Equal(t, problem.MediaType, get("/internal/node/x").Header().Get("Content-Type"))
	w := at(post("/internal/node/cluster/admin/elections/a%2Fb/resign", "{}"))
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var m Moved
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &m))
	require.Equal(t, c.Node(0).Address(), m.LeaderID)
}
