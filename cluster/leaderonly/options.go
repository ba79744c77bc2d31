package leaderonly

import (
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Elsewhere selects the response of a node that does not lead.
type Elsewhere int

// The responses of a node that does not lead.
const (
	// Refuse answers 503 and names the leader. A load balancer sends the request to the next node.
	Refuse Elsewhere = iota
	// Redirect answers 307 with the leader's URL. Path and query are as the client sent them, before middleware
	// like http.StripPrefix changed them; method and body are preserved. The client must be able to reach the
	// leader, and must follow redirects.
	Redirect
	// Forward makes this node send the request to the leader, and return the response. Nodes must be able to
	// reach each other by HTTP.
	Forward
)

// Options configures a [Handler]. The zero value works: it answers 503 on other nodes than the leader, to
// requests that may change something.
type Options struct {
	// Applies reports whether only the leader may answer a request; others are handled on every node. Default:
	// [Writes]. See [Methods].
	Applies func(*http.Request) bool
	// Elsewhere selects the response of this node while another one leads. If the leader's URL is unknown, the
	// response is that of Refuse. Default: Refuse.
	Elsewhere Elsewhere
	// Wait limits how long a request waits while there is no leader, or while this node gives way. It also limits
	// the wait for another leader when the request could not be forwarded to the known one. Negative: no wait.
	// Default 2 s.
	Wait time.Duration
	// MaxWaiting limits the requests waiting at a time; further ones are refused. Default 1024.
	MaxWaiting int

	// Transport sends forwarded requests. Set its TLSClientConfig for nodes that serve TLS. A request can be sent
	// again only if its body has not been sent, so the transport should wait for 100 Continue; see
	// http.Transport.ExpectContinueTimeout. The default is a transport of the handler's own that dials for at
	// most a second and uses no proxy.
	Transport http.RoundTripper
	// ForwardTimeout limits a forwarded request, up to the end of its response. Once another node leads, the
	// former leader has 2 s for its response, whatever remains of the timeout, because it may stand still.
	// Together with Wait the timeout should be below the server's WriteTimeout, after which no client learns the
	// outcome. Default 25 s.
	ForwardTimeout time.Duration
	// MaxForwarded limits the requests being forwarded at a time; further ones are refused. Default 1024.
	MaxForwarded int
	// Logger receives a line for each forwarded request with an unknown outcome, and one when a required URL of
	// the leader is unknown. Default: none.
	Logger hclog.Logger
}

func (o Options) withDefaults() Options {
	if o.Applies == nil {
		o.Applies = Writes
	}
	o.Wait, o.MaxWaiting = waitLimits(o.Wait, o.MaxWaiting)
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

func waitLimits(wait time.Duration, most int) (time.Duration, int) {
	if wait == 0 {
		wait = 2 * time.Second
	}
	if most <= 0 {
		most = 1024
	}
	return max(wait, 0), most
}

// Writes reports whether a request's method may change something: it is none of GET, HEAD, OPTIONS and TRACE.
func Writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

// Methods returns a function for Options.Applies that selects requests with these methods.
func Methods(methods ...string) func(*http.Request) bool {
	methods = slices.Clone(methods)
	return func(r *http.Request) bool { return slices.Contains(methods, r.Method) }
}

// All selects every request. Use it for Options.Applies.
func All(*http.Request) bool { return true }
