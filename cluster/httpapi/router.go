package httpapi

import (
	"net/http"
	"net/url"
	"strings"
)

// route is one path, and what answers there.
type route struct {
	// path is matched segment by segment; {name} stands for any one segment, percent-encoded as it may be.
	path string
	// method is GET, which stands for HEAD too, or POST.
	method string
	// handle gets what {name} stood for.
	handle func(w http.ResponseWriter, r *http.Request, name string)
	// probe: it is answered however many requests run. It must not block.
	probe bool
	// pushed: /cluster/stream can have it.
	pushed bool
	// stream: it is answered for as long as the client likes.
	stream bool
}

// page is a route that reads, and has no name in it.
func page(path string, handle http.HandlerFunc) route {
	return route{path: path, method: http.MethodGet,
		handle: func(w http.ResponseWriter, r *http.Request, _ string) { handle(w, r) }}
}

// probed is a page for supervisors and load balancers.
func probed(path string, handle http.HandlerFunc) route {
	p := page(path, handle)
	p.probe = true
	return p
}

// live is a page that /cluster/stream can have.
func live(path string, handle http.HandlerFunc) route {
	p := page(path, handle)
	p.pushed = true
	return p
}

// streaming is a page that is answered for as long as the client likes.
func streaming(path string, handle http.HandlerFunc) route {
	p := page(path, handle)
	p.stream = true
	return p
}

// match reports whether an escaped path is the route's, and what {name} stands for in it. It is done on the escaped
// path, as http.ServeMux does not: a name may have slashes and dots, and nobody is redirected to a cleaner path, which
// would be wrong below a prefix that was stripped.
func (r route) match(escaped string) (name string, ok bool) {
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

// allowed are the methods, as the header Allow has them.
func (r route) allowed() string {
	if r.method == http.MethodGet {
		return "GET, HEAD"
	}
	return r.method
}

// takes reports whether the method is the route's.
func (r route) takes(method string) bool {
	return method == r.method || r.method == http.MethodGet && method == http.MethodHead
}

// router finds the route of a request.
type router struct {
	routes []route
	// slots has one place for each request that may run at a time, probes and streams apart, which have theirs.
	slots, streams chan struct{}
	// What streams look at.
	source Source
	pages  *cache
}

// ServeHTTP implements http.Handler.
func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	found, name, ok := rt.find(r.URL.EscapedPath())
	switch {
	case !ok:
		writeError(w, http.StatusNotFound, "no such page; there are "+rt.paths())
	case !found.takes(r.Method):
		w.Header().Set("Allow", found.allowed())
		message := "use GET or HEAD: nothing can be changed here"
		if found.method == http.MethodPost {
			message = "use POST: this changes something"
		}
		writeError(w, http.StatusMethodNotAllowed, message)
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
			writeProblem(w, busy, "as many requests run as this node serves at a time: try again")
		}
	}
}

func (rt *router) find(escaped string) (found route, name string, ok bool) {
	for _, r := range rt.routes {
		if name, ok := r.match(escaped); ok {
			return r, name, true
		}
	}
	return route{}, "", false
}

// paths are those that there are, in the order in which a caller that asks for something else reads them.
func (rt *router) paths() string {
	all := make([]string, len(rt.routes))
	for i, r := range rt.routes {
		all[i] = r.path
	}
	return strings.Join(all, ", ")
}

// secure sets what every answer says to browsers: they are to keep it, frame it, run or pass on nothing of it. All
// answers are data but the dashboard, which has a policy of its own.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}
