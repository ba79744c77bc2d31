package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Admin enables the calls below /cluster/admin/, which change something. Authorize is required; a nil one refuses
// every caller.
type Admin struct {
	// Authorize decides which requests are permitted: BearerToken, ClientCertificate, AnyOf several, or a
	// function of the program.
	Authorize Authorizer
	// Timeout limits one call, in addition to the end of its request. Default 20 s, which is less than the time
	// that Serve allows for a response. A drain or a pause that takes longer goes on.
	Timeout time.Duration
	// Failures is the rate per second of failed authentications that are checked for one IP address, after a
	// burst of ten. Further requests of that address are refused unchecked, including those with valid
	// credentials. A check in progress counts as failed. Default 1.
	Failures rate.Limit
	// Logger receives a line for each call, with its caller and status, and one for each refused call, except
	// those over Failures. Nil: none.
	Logger hclog.Logger
}

func (o Admin) withDefaults() Admin {
	if o.Authorize == nil {
		o.Authorize = func(*http.Request) (string, error) { return "", ErrForbidden }
	}
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	if o.Failures <= 0 {
		o.Failures = 1
	}
	o.Logger = logqueue.New(o.Logger)
	return o
}

// adminPrefix is the prefix of the paths of all admin calls.
const adminPrefix = "/cluster/admin/"

// adminRoutes returns the routes of admin calls. They exist while admin calls are off, and then explain how to
// enable them.
func (a *api) adminRoutes() []route {
	var admin *adminServer
	if a.opts.Admin != nil {
		admin = newAdminServer(a, a.opts.Admin.withDefaults())
	}
	post := func(path string, call func(s *adminCalls, ctx context.Context, r *adminRequest) (any, error)) route {
		return route{path: adminPrefix + path, method: http.MethodPost,
			handle: func(w http.ResponseWriter, r *http.Request, name string) { admin.serveCall(w, r, name, call) }}
	}
	inCluster := func(path string, call func(s *adminCalls, ctx context.Context, r *adminRequest) (any, error)) route {
		return post(path, func(s *adminCalls, ctx context.Context, r *adminRequest) (any, error) {
			if s.c == nil {
				return nil, errNoCluster
			}
			return call(s, ctx, r)
		})
	}
	return []route{
		post("check", (*adminCalls).checkCaller),
		inCluster("resign", (*adminCalls).resignLeader),
		inCluster("transfer", (*adminCalls).transferLeader),
		inCluster("drain", (*adminCalls).drainNode),
		inCluster("undrain", (*adminCalls).undrainNode),
		inCluster("elections/{name}/resign", (*adminCalls).resignElection),
		inCluster("elections/{name}/transfer", (*adminCalls).transferElection),
		inCluster("effects/{name}/resolve", (*adminCalls).resolveEffect),
		post("processors/{name}/pause", (*adminCalls).pauseProcessor),
		post("processors/{name}/resume", (*adminCalls).resumeProcessor),
		post("processors/{name}/rewind", (*adminCalls).rewindProcessor),
		post("processors/{name}/unfence", (*adminCalls).unfenceProcessor),
		post("processors/{name}/retry", (*adminCalls).retryEvent),
		post("processors/{name}/drop", (*adminCalls).dropEvent),
	}
}
