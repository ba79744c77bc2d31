package leaderonly

import (
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Elsewhere is how a node answers that does not lead.
type Elsewhere int

// The ways to answer elsewhere.
const (
	// Refuse: 503, which says who leads. A load balancer sends the request to the next node.
	Refuse Elsewhere = iota
	// Redirect: 307 to the leader, with path and query as the client sent them (whatever http.StripPrefix
	// and the like have done since), which keeps method and body. The client must reach the leader, and
	// follow.
	Redirect
	// Forward: this node sends the request to the leader, and the answer back. Nodes must reach each
	// other by HTTP.
	Forward
)

// Options are what a [Handler] does. The zero value works: 503 elsewhere, for whatever may change
// something.
type Options struct {
	// Applies says which requests are the leader's alone; the others are handled wherever they come
	// in. Default: [Writes]. See [Methods].
	Applies func(*http.Request) bool
	// Elsewhere is how it is answered where this node does not lead, and another one does. Where the
	// leader's URL is not known it is Refuse. Default: Refuse.
	Elsewhere Elsewhere
	// Wait is how long a request waits for a leader while there is none, or while this node gives way;
	// and for another one, when the leader could not be reached to forward it. Negative: not at all.
	// Default 2 s.
	Wait time.Duration
	// MaxWaiting is how many requests may wait at a time; what comes then is refused. Default 1024.
	MaxWaiting int

	// Transport sends what is forwarded: set its TLSClientConfig for nodes that serve TLS. A body can be
	// sent anew only if it was not sent yet, so it should wait for 100 Continue, by
	// http.Transport.ExpectContinueTimeout. Default: a transport of the handler's own, which dials for
	// a second at most, and uses no proxy.
	Transport http.RoundTripper
	// ForwardTimeout bounds a forwarded request, from the beginning to the end of its answer. A leader that another
	// one has replaced has 2 s for its answer, whatever is left of that: it may stand still. With Wait it
	// should be less than the server's WriteTimeout, after which nobody hears the outcome. Default 25 s.
	ForwardTimeout time.Duration
	// MaxForwarded is how many requests may be on their way to the leader at a time; what comes then is
	// refused. Default 1024.
	MaxForwarded int
	// Logger gets a line for each forwarded request whose outcome is not known, and one if a leader's URL is
	// not known that is needed. Default: none.
	Logger hclog.Logger
}

func (o Options) withDefaults() Options {
	if o.Applies == nil {
		o.Applies = Writes
	}
	o.Wait, o.MaxWaiting = waits(o.Wait, o.MaxWaiting)
	if o.ForwardTimeout <= 0 {
		o.ForwardTimeout = 25 * time.Second
	}
	if o.MaxForwarded <= 0 {
		o.MaxForwarded = 1024
	}
	if o.Transport == nil && o.Elsewhere == Forward {
		o.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 2 * time.Second, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 64,
			ForceAttemptHTTP2: true, ExpectContinueTimeout: o.Wait + time.Second,
		}
	}
	o.Logger = logqueue.New(o.Logger)
	return o
}

func waits(wait time.Duration, most int) (time.Duration, int) {
	if wait == 0 {
		wait = 2 * time.Second
	}
	if most <= 0 {
		most = 1024
	}
	return max(wait, 0), most
}

// Writes reports whether a request may change something by its method: it is none of GET, HEAD, OPTIONS
// and TRACE.
func Writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

// Methods is for Options.Applies: the requests with these methods.
func Methods(methods ...string) func(*http.Request) bool {
	methods = slices.Clone(methods)
	return func(r *http.Request) bool { return slices.Contains(methods, r.Method) }
}

// All is for Options.Applies: every request.
func All(*http.Request) bool { return true }
