package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every request gets a valid HTTP response with the common headers, and never fails the server.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/cluster/elections", "limit=2&after=a%2Fb", "", "")
	f.Add("GET", "/cluster/objects", "key=%ff", "", "")
	f.Add("GET", "/cluster/events", "since=1h&limit=3", "", "")
	f.Add("POST", "/cluster/admin/transfer", "", `{"to":"a:1"}`, "Bearer "+fuzzToken)
	f.Add("POST", "/cluster/admin/effects/a%2Fb/resolve", "", `{"token":7,"outcome":"done"}`, "Bearer "+fuzzToken)
	f.Add("POST", "/cluster/admin/elections/%2e%2e/resign", "x", "{", "Bearer x")
	h := New(stopped(), Options{Admin: &Admin{Authorize: BearerToken("ops", fuzzToken)}})
	f.Fuzz(func(t *testing.T, method, path, query, body, authorization string) {
		u := url.URL{Path: path, RawQuery: query}
		if raw, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = raw, path
		}
		if path == "/cluster/stream" || path == "/cluster/events/stream" {
			return // these have headers of their own
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Method, r.URL = method, &u
		r.Header.Set("Authorization", authorization)
		r.Header.Set("Content-Type", "application/json")
		r.Body = http.NoBody
		if body != "" {
			r.Body = io.NopCloser(strings.NewReader(body))
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.GreaterOrEqual(t, w.Code, 200)
		require.Less(t, w.Code, 600)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.NotContains(t, w.Body.String(), fuzzToken)
	})
}

const fuzzToken = "a token that is long enough to be one"
