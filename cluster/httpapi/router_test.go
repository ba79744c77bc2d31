package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/problem"
)

// allMethods lists those of RFC 9110, PATCH, and an unknown one.
var allMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
	http.MethodPatch, http.MethodOptions, http.MethodTrace, http.MethodConnect, "REPORT"}

// problemIn decodes the problem of a response.
func problemIn(t *testing.T, w *httptest.ResponseRecorder) problem.Problem {
	t.Helper()
	require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"), w.Body.String())
	var p problem.Problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), w.Body.String())
	require.Equal(t, w.Code, p.Status)
	require.NotEmpty(t, p.Title)
	require.NotContains(t, p.Detail, "\n")
	return p
}

func TestOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	h := newRouter(leader(), func() objectView { return someObjects() }, Options{})
	p := problemIn(t, call(h, http.MethodGet, "/cluster/nope"))
	require.Equal(t, problem.Problem{Type: problem.BlankType, Title: "Not Found", Status: 404, Detail: p.Detail}, p)
	require.Contains(t, p.Detail, "/cluster/status")
	for _, rt := range h.routes {
		path := strings.Replace(rt.path, "{name}", "it", 1)
		for _, method := range allMethods {
			w := call(h, method, path)
			if rt.acceptsMethod(method) {
				require.NotEqual(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
				continue
			}
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
			require.Equal(t, rt.allowedMethods(), w.Header().Get("Allow"))
			problemIn(t, w)
		}
		// Similar paths do not match.
		for _, other := range []string{path + "/", "/" + path, path + "/x", path + "%2f", strings.ToUpper(path)} {
			if other != path {
				require.Equal(t, http.StatusNotFound, call(h, rt.method, other).Code, other)
			}
		}
	}
	require.Equal(t, http.StatusOK, call(h, http.MethodHead, "/cluster/status").Code)
}

// The dashboard has exactly one path, also below a prefix, and can be left out.
func TestDashboard(t *testing.T) {
	t.Parallel()
	h := New(follower(), Options{})
	w := call(h, http.MethodGet, "/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), "<title>Goverse</title>")
	below := http.StripPrefix("/ops", h)
	require.Equal(t, w.Body.String(), call(below, http.MethodGet, "/ops/").Body.String())
	for _, path := range []string{"/index.html", "//", "/app.js", "/favicon.ico"} {
		problemIn(t, call(h, http.MethodGet, path))
	}
	problemIn(t, call(New(follower(), Options{NoDashboard: true}), http.MethodGet, "/"))
}

func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	rt := route{path: "/cluster/admin/elections/{name}/resign"}
	for escaped, want := range map[string]string{"a": "a",
		"a%2Fb": "a/b", "..": "..", "%2e%2E": "..", "a%20b%00": "a b\x00",
		"%ff": "\xff", "+": "+"} {
		name, ok := rt.matchPath("/cluster/admin/elections/" + escaped + "/resign")
		require.True(t, ok, escaped)
		require.Equal(t, want, name)
	}
	for _, escaped := range []string{"", "a/b", "%", "%zz"} {
		_, ok := rt.matchPath("/cluster/admin/elections/" + escaped + "/resign")
		require.False(t, ok, escaped)
	}
}

// Every response has the same headers for browsers.
func TestHeaders(t *testing.T) {
	t.Parallel()
	h := newRouter(follower(), func() objectView { return nil }, Options{})
	for _, rt := range h.routes {
		for _, method := range allMethods {
			w := call(h, method, strings.Replace(rt.path, "{name}", "it", 1))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), rt.path)
			require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
			require.Equal(t, "same-origin", w.Header().Get("Cross-Origin-Resource-Policy"))
			policy := w.Header().Get("Content-Security-Policy")
			if rt.path == "/" && w.Code == http.StatusOK { // the dashboard permits its own style and script
				require.Regexp(t, `^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; `+
					`connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$`, policy)
			} else {
				require.Equal(t, "default-src 'none'; frame-ancestors 'none'", policy)
			}
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
}

// As many requests run concurrently as there are slots. Probes are answered all the same.
func TestBusy(t *testing.T) {
	t.Parallel()
	h := newRouter(follower(), func() objectView { return nil }, Options{MaxRequests: 2})
	inside, goOn, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h.routes = append(h.routes, pageRoute("/slow", func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-goOn
	}))
	for range 2 {
		go func() {
			call(h, http.MethodGet, "/slow")
			done <- struct{}{}
		}()
		<-inside
	}
	w := call(h, http.MethodGet, "/cluster/status")
	require.Equal(t, problemTypes+"busy", problemIn(t, w).Type)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusOK, call(h, http.MethodGet, "/livez").Code)
	require.Equal(t, http.StatusOK, call(h, http.MethodGet, "/readyz").Code)
	close(goOn)
	<-done
	<-done
	require.Equal(t, http.StatusOK, call(h, http.MethodGet, "/cluster/status").Code)
}
