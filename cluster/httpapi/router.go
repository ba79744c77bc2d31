package httpapi

import (
	"net/http"
	"net/url"
	"strings"
)

// route is one path and its handler.
type route struct {
	// path is matched segment by segment; {name} matches any one segment, percent-encoded or not.
	path string
	// method is GET, which includes HEAD, or POST.
	method string
	// handle receives the segment that {name} matched.
	handle func(w http.ResponseWriter, r *http.Request, name string)
	// probe exempts the route from the limit of requests. Its handler must not block.
	probe bool
	// pushed allows the route in /cluster/stream.
	pushed bool
	// stream marks a response that lasts for as long as the client stays.
	stream bool
}

// pageRoute returns a route that reads, without a name in its path.
func pageRoute(path string, handle http.HandlerFunc) route {
	return route{path: path, method: http.MethodGet,
		handle: func(w http.ResponseWriter, r *http.Request, _ string) { handle(w, r) }}
}

// probeRoute returns a page for supervisors and load balancers.
func probeRoute(path string, handle http.HandlerFunc) route {
	p := pageRoute(path, handle)
	p.probe = true
	return p
}

// pushedRoute returns a page that /cluster/stream can push.
func pushedRoute(path string, handle http.HandlerFunc) route {
	p := pageRoute(path, handle)
	p.pushed = true
	return p
}

// streamRoute returns a page with a response that lasts for as long as the client stays.
func streamRoute(path string, handle http.HandlerFunc) route {
	p := pageRoute(path, handle)
	p.stream = true
	return p
}

// matchPath reports whether an escaped path matches the route, and returns the segment for {name}. Unlike
// http.ServeMux it matches the escaped path: a name may have slashes and dots, and no client is redirected to a
// cleaned path, which would be wrong below a stripped prefix.
func (r route) matchPath(escaped string) (name string, ok bool) {
	want, have := strings.Split(r.path, "/"), strings.Split(escaped, "/")
	if len(want) != len(have) {
		return "", false
	}
	for i, segment := range want {
		if segment != "{name}" {
			if segment != have[i] {
				return "", false
			}
			continue
		}
		var err error
		if name, err = url.PathUnescape(have[i]); err != nil || name == "" {
			return "", false
		}
	}
	return name, true
}

// allowedMethods returns the methods for the header Allow.
func (r route) allowedMethods() string {
	if r.method == http.MethodGet {
		return "GET, HEAD"
	}
	return r.method
}

// acceptsMethod reports whether the route accepts the method.
func (r route) acceptsMethod(method string) bool {
	return method == r.method || r.method == http.MethodGet && method == http.MethodHead
}

// router finds the route of a request.
type router struct {
	routes []route
	// slots limits the concurrent requests, except probes, and streams the concurrent streams.
	slots, streams chan struct{}
	// For streams.
	source Source
	pages  *cache
}

// ServeHTTP implements http.Handler.
func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	found, name, ok := rt.findRoute(r.URL.EscapedPath())
	switch {
	case !ok:
		writePlainProblem(w, http.StatusNotFound, "no such page; there are "+rt.listPaths())
	case !found.acceptsMethod(r.Method):
		w.Header().Set("Allow", found.allowedMethods())
		message := "use GET or HEAD: nothing can be changed here"
		if found.method == http.MethodPost {
			message = "use POST: this changes something"
		}
		writePlainProblem(w, http.StatusMethodNotAllowed, message)
	case found.probe:
		found.handle(w, r, name)
	case found.stream && r.Method == http.MethodHead:
		w.Header().Set("Content-Type", "text/event-stream")
	default:
		slots := rt.slots
		if found.stream {
			slots = rt.streams
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			found.handle(w, r, name)
		default:
			writeProblem(w, busyKind, "as many requests run as this node serves at a time: try again")
		}
	}
}

func (rt *router) findRoute(escaped string) (found route, name string, ok bool) {
	for _, r := range rt.routes {
		if name, ok := r.matchPath(escaped); ok {
			return r, name, true
		}
	}
	return route{}, "", false
}

// listPaths lists all paths in the order of the routes, for a 404.
func (rt *router) listPaths() string {
	all := make([]string, len(rt.routes))
	for i, r := range rt.routes {
		all[i] = r.path
	}
	return strings.Join(all, ", ")
}

// setSecurityHeaders sets headers that forbid browsers to keep, frame, run or share the response. All responses are
// data except the dashboard, which sets its own policy.
func setSecurityHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
