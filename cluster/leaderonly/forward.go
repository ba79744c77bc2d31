package leaderonly

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/goverse/goverse/internal/wait"
)

// forwarder sends requests to the leader.
type forwarder struct {
	leadership Leadership
	proxy      *httputil.ReverseProxy
	opts       Options
	logLimit   rate.Sometimes
	slots      chan struct{} // limits the forwarded requests in progress
}

// errRefused is returned when the presumed leader refused the request.
var errRefused = errors.New("the node that was taken for the leader refused the request")

// errReplaced is returned when the node that got a request no longer leads and does not answer.
var errReplaced = errors.New("another node leads, and the former leader does not answer")

const (
	// leaderCheckAfter is the time after which a forwarder checks for a new leader. Most requests are answered sooner.
	leaderCheckAfter = time.Second
	// formerLeaderTimeout is the time that a former leader has for its answer once another node leads. Its work as the
	// leader has ended by then.
	formerLeaderTimeout = 2 * time.Second
)

func newForwarder(l Leadership, opts Options) *forwarder {
	return &forwarder{leadership: l, opts: opts, logLimit: rate.Sometimes{Interval: time.Second},
		slots: make(chan struct{}, opts.MaxForwarded),
		proxy: &httputil.ReverseProxy{
			Rewrite:   rewriteRequest,
			Transport: ownTrace{opts.Transport},
			ModifyResponse: func(resp *http.Response) error {
				refused := resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get(RefusedHeader) != ""
				if refused {
					return errRefused
				}
				return nil
			},
			// The response is sent after the proxy has returned.
			ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) { forwardedRequestOf(r.Context()).err = err },
			ErrorLog:     opts.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		}}
}

// forwardedRequest is one request forwarded to one leader.
type forwardedRequest struct {
	to   Leader
	body *trackedBody
	sent atomic.Bool     // part of it may have been sent, even if a connection failed afterwards
	err  error           // why it was not answered
	ctx  context.Context // of the original request
}

// ownTrace hides the proxy's client trace from the transport. The leader answers the Expect header of rewriteRequest
// with 100 Continue, and the proxy would pass that on to a client that did not ask for it.
type ownTrace struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t ownTrace) RoundTrip(r *http.Request) (*http.Response, error) {
	p := forwardedRequestOf(r.Context())
	// A transport may retry by itself, on another connection.
	ctx := httptrace.WithClientTrace(valuesContext{r.Context(), p.ctx},
		&httptrace.ClientTrace{WroteHeaders: func() { p.sent.Store(true) }})
	return t.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// valuesContext is a context with the values of another one.
type valuesContext struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c valuesContext) Value(key any) any { return c.values.Value(key) }

// notReached reports whether no connection was established.
func (p *forwardedRequest) notReached() bool {
	op, ok := errors.AsType[*net.OpError](p.err)
	return ok && op.Op == "dial" && !p.sent.Load()
}

type forwardedKey struct{}

func forwardedRequestOf(ctx context.Context) *forwardedRequest {
	return ctx.Value(forwardedKey{}).(*forwardedRequest)
}

// forwardRequest sends a request to the leader and returns its response. It reports false if the request has certainly
// not begun there and can be sent again; otherwise it has answered the request.
func (f *forwarder) forwardRequest(w http.ResponseWriter, r *http.Request, to refusal) (answered bool) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		to.detail = "too many requests are on their way to the leader already; nothing was done; try again"
		writeRefusal(w, to)
		return true
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.opts.ForwardTimeout)
	defer cancel()
	ctx, replaced := context.WithCancelCause(ctx)
	defer f.watchReplaced(ctx, to.leader, replaced)()
	p := &forwardedRequest{to: to.leader, body: &trackedBody{ReadCloser: r.Body}}
	p.ctx = context.WithValue(ctx, forwardedKey{}, p)
	out := r.WithContext(p.ctx)
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = p.body
	}
	f.proxy.ServeHTTP(w, out)
	if p.err != nil && errors.Is(context.Cause(ctx), errReplaced) && !p.notReached() {
		p.err = errReplaced
	}
	switch {
	case p.err == nil:
		return true
	case p.body.unread() && (errors.Is(p.err, errRefused) || p.notReached()):
		return false
	case errors.Is(p.err, errRefused): // the body has been read, so another node cannot get it
		to.detail = "the node that was taken for the leader refused the request; nothing was done; try again"
		writeRefusal(w, to)
	case p.notReached():
		to.detail = "the leader could not be reached; nothing was done; try again"
		writeRefusal(w, to)
	default:
		f.logLimit.Do(func() { // a client that disconnects causes this too, and may do so often
			f.opts.Logger.Warn("unknown whether the leader executed a forwarded request",
				"leader", to.leader.Name, "method", r.Method, "path", r.URL.Path, "error", p.err)
		})
		to.reason = OutcomeUnknown
		to.detail = "the leader did not answer the forwarded request: it may have carried it out"
		writeProblem(w, http.StatusBadGateway, to)
	}
	return true
}

// watchReplaced calls end with errReplaced if another node leads and the former leader, which may stand still, has not
// answered. It calls end for that reason only until stop has returned.
func (f *forwarder) watchReplaced(ctx context.Context, to Leader, end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		another := func() bool {
			now := f.leadership.Leader().Name
			return now != "" && now != to.Name
		}
		if wait.For(ctx, leaderCheckAfter) && f.leadership.Await(ctx, another) == nil && wait.For(ctx, formerLeaderTimeout) {
			end(errReplaced)
		}
	}()
	return func() {
		cancel()
		<-done
		end(nil)
	}
}

func rewriteRequest(p *httputil.ProxyRequest) {
	to := forwardedRequestOf(p.In.Context()).to
	if u, ok := urlAt(to.URL, p.In); ok {
		p.Out.URL = u
	}
	p.Out.Host = p.In.Host
	// Values set by a proxy before this node are kept, and this node's peer is added.
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if said := p.In.Header[name]; len(said) > 0 {
			p.Out.Header[name] = said
		}
	}
	p.Out.Header.Del(RetryHeader)
	p.Out.Header.Set(ForwardedHeader, strconv.FormatInt(to.Token, 10))
	if p.Out.Body != nil && p.Out.Body != http.NoBody {
		p.Out.Header.Set("Expect", "100-continue") // keeps the body unread if the request is refused
	}
}

// trackedBody is a request's body that stays open until some of it has been read.
type trackedBody struct {
	io.ReadCloser
	begun atomic.Bool
}

// Read implements io.Reader.
func (b *trackedBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	return b.ReadCloser.Read(p)
}

// Close closes the body if reading has begun. The server closes the others.
func (b *trackedBody) Close() error {
	if !b.begun.Load() {
		return nil
	}
	return b.ReadCloser.Close()
}

func (b *trackedBody) unread() bool { return !b.begun.Load() }
