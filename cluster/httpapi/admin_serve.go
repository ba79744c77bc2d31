package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// maxBody limits the body of an admin call in bytes: once.MaxValue in base64, and the rest.
const maxBody = 128 << 10

// adminServer serves the admin calls. A nil admin refuses them as disabled.
type adminServer struct {
	api      *api
	opts     Admin
	failures *authFailures
	origin   *http.CrossOriginProtection
}

func newAdminServer(a *api, opts Admin) *adminServer {
	return &adminServer{api: a, opts: opts, failures: newAuthFailures(opts.Failures),
		origin: http.NewCrossOriginProtection()}
}

// adminCalls carries out admin calls, on a running node.
type adminCalls struct {
	nodeID     string
	c          *cluster.Cluster // nil for a node without one
	processors processor.Manager
	lists      *cache
}

// adminRequest is one request for an admin call.
type adminRequest struct {
	name   string // from the path
	caller string
	body   []byte
}

// errBadBody is wrapped by errors about a request's body.
var errBadBody = errors.New("bad body")

// decodeBody decodes the body into the fields of the call. An empty body sets none of them.
func (r *adminRequest) decodeBody(into any) error {
	if len(r.body) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: it is not the JSON object that this call takes: %w", errBadBody, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the JSON object", errBadBody)
	}
	return nil
}

// missingFieldError returns the error for a missing field.
func missingFieldError(field, what string) error {
	return fmt.Errorf("%w: %q is missing: give %s", errBadBody, field, what)
}

// serveCall authorizes a request, carries it out and logs it.
func (a *adminServer) serveCall(w http.ResponseWriter, r *http.Request, name string,
	call func(s *adminCalls, ctx context.Context, r *adminRequest) (any, error)) {
	if a == nil {
		writeProblem(w, adminOffKind,
			"admin calls are off on this node: give goversed --admin-token-file or --http-client-ca, "+
				"or set httpapi.Options.Admin")
		return
	}
	caller, ok := a.authorizeCaller(w, r)
	if !ok {
		return
	}
	seen := &statusRecorder{ResponseWriter: w}
	began := time.Now()
	a.executeCall(seen, r, &adminRequest{name: name, caller: caller}, call)
	a.opts.Logger.Info("admin call", "call", r.URL.EscapedPath(), "by", caller, "from", r.RemoteAddr,
		"status", seen.status, "took", time.Since(began).Round(time.Millisecond))
}

// authorizeCaller returns the caller of a request, or answers a request that it refuses.
func (a *adminServer) authorizeCaller(w http.ResponseWriter, r *http.Request) (caller string, ok bool) {
	refuse := func(k problemKind, detail string, err error) {
		a.opts.Logger.Warn("admin call refused", "call", r.URL.EscapedPath(), "from", r.RemoteAddr, "status", k.status,
			"error", logtext.OneLine(err))
		writeProblem(w, k, detail)
	}
	if err := a.origin.Check(r); err != nil {
		// A page can send any number of these, so they must fill neither the log nor the failures of the address.
		a.opts.Logger.Debug("cross-site request refused", "call", r.URL.EscapedPath(), "from", r.RemoteAddr)
		writeProblem(w, crossSiteKind, "a browser sent this from a page of another origin")
		return "", false
	}
	limit := a.failures.takeAttempt(r.RemoteAddr, time.Now())
	if limit == nil {
		w.Header().Set("Retry-After", "10")
		writeProblem(w, tooManyFailedKind, "too many authentications from this address failed: wait")
		return "", false
	}
	caller, err := a.opts.Authorize(r)
	switch {
	case err == nil:
		limit.AllowN(time.Now(), -1) // gives the attempt back
		return caller, true
	case errors.Is(err, ErrUnauthenticated):
		// Bearer is the only scheme of HTTP itself; certificates are part of TLS.
		w.Header().Set("WWW-Authenticate", `Bearer realm="goverse"`)
		refuse(unauthenticatedKind, "give a token, as Authorization: Bearer TOKEN, or show a client certificate", err)
	default:
		refuse(forbiddenKind, "the token or the certificate is not one that may make admin calls on this node", err)
	}
	return "", false
}

// executeCall executes an authorized request.
func (a *adminServer) executeCall(w http.ResponseWriter, r *http.Request, asked *adminRequest,
	call func(s *adminCalls, ctx context.Context, r *adminRequest) (any, error)) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		writePlainProblem(w, http.StatusUnsupportedMediaType, "send Content-Type: application/json")
		return
	}
	asked.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		writePlainProblem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody))
		return
	} else if err != nil {
		writePlainProblem(w, http.StatusBadRequest, "the body cannot be read: "+logtext.OneLine(err))
		return
	}
	checkpoints, c, ok := a.api.checkpoints(w, "cluster")
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.opts.Timeout)
	defer cancel()
	answer, err := call(&adminCalls{a.api.source.Status().NodeID, c, checkpoints, a.api.lists}, ctx, asked)
	switch {
	case errors.Is(err, errBadBody):
		writePlainProblem(w, http.StatusBadRequest, logtext.OneLine(err))
	case err != nil && ctx.Err() != nil && problemKindOf(err) == etcdFailedKind:
		writeProblem(w, notDoneKind, logtext.OneLine(err))
	case err != nil:
		a.api.writeReadError(w, err)
	default:
		writeJSON(w, statusOf(answer), answer)
	}
}

// statusOf returns 202 for work that goes on after the response.
func statusOf(answer any) int {
	if d, ok := answer.(Drained); ok && d.Draining && d.ShardsLeft > 0 {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// statusRecorder remembers the response's status for the log.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}
