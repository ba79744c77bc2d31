package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster"
)

// retryAfter is in seconds. One is enough for a hand-over and is the least that
// the header can say.
const retryAfter = "1"

// LeaderSource is what LeaderOnly asks; *cluster.Cluster is one.
type LeaderSource interface {
	// IsLeader is asked for each request and must not block.
	IsLeader() bool
	// LeaderInfo is asked only for a redirect.
	LeaderInfo(ctx context.Context) (cluster.LeaderInfo, error)
}

// LeaderOnlyOptions say what LeaderOnly does on the other nodes. The zero value
// works.
type LeaderOnlyOptions struct {
	// Redirect sends clients to the same path at the leader's api_url with 307,
	// which keeps method and body. Without a known api_url it is 503 all the same.
	Redirect bool
	// LeaderTimeout bounds the question for the leader. Default 2 s.
	LeaderTimeout time.Duration
}

// LeaderOnly passes requests on to next while this node leads. Elsewhere it
// answers 503 with Retry-After, or redirects to the leader. The decision is made
// when the request comes in; see the package comment.
func LeaderOnly(source LeaderSource, next http.Handler, opts LeaderOnlyOptions) http.Handler {
	timeout := Options{LeaderTimeout: opts.LeaderTimeout}.withDefaults().LeaderTimeout
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if source.IsLeader() {
			next.ServeHTTP(w, r)
			return
		}
		if opts.Redirect {
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			info, err := source.LeaderInfo(ctx)
			cancel()
			if target, ok := redirectTo(info, r); err == nil && ok {
				w.Header().Set("Cache-Control", "no-store")
				http.Redirect(w, r, target, http.StatusTemporaryRedirect)
				return
			}
		}
		w.Header().Set("Retry-After", retryAfter)
		writeError(w, http.StatusServiceUnavailable, "this node does not lead; ask the leader, shown at /cluster/leader, "+
			"or try again")
	})
}

// redirectTo is the request's own path and query at the leader.
func redirectTo(info cluster.LeaderInfo, r *http.Request) (string, bool) {
	base := apiURL(info.HTTPAddress)
	if base == "" {
		return "", false
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", false
	}
	// Field by field: a path like //elsewhere must not become the host.
	u.Path, u.RawPath, u.RawQuery = r.URL.Path, r.URL.RawPath, r.URL.RawQuery
	return u.String(), true
}

// apiURL is the URL of an HTTP address as nodes tell it: host:port or a URL.
func apiURL(address string) string {
	if address == "" || strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}
