package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Admin switches on the calls below /cluster/admin/, which change something. Authorize is required: a nil one refuses
// everybody.
type Admin struct {
	// Authorize decides who may: BearerToken, ClientCertificate, AnyOf several, or a function of the program's own.
	Authorize Authorizer
	// Processors are those that can be paused: a processor.Group, for example. Nil: there are none.
	Processors ProcessorPauser
	// Timeout bounds one call, beside the end of its request. Default 20 s, which is less than Serve gives an
	// answer; a drain that takes longer goes on.
	Timeout time.Duration
	// Failures is how many failed authentications a second are looked at from one IP address, after ten at once; more
	// are refused unseen, with those of the same address that would not fail. Default 1.
	Failures rate.Limit
	// Logger gets a line for each call: who made it, and what came of it; and one for each that was refused, but for
	// those over Failures. Nil: none.
	Logger hclog.Logger
}

// ProcessorPauser pauses processors; processor.Group is one.
type ProcessorPauser interface {
	Pause(ctx context.Context, name string) error
	Resume(name string) error
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

// adminPrefix is below what all admin calls are.
const adminPrefix = "/cluster/admin/"

// adminRoutes are there also while they are off: they say how they are switched on.
func (a *api) adminRoutes() []route {
	var admin *admin
	if a.opts.Admin != nil {
		admin = newAdmin(a, a.opts.Admin.withDefaults())
	}
	post := func(path string, call func(s *admins, ctx context.Context, r *adminRequest) (any, error)) route {
		return route{path: adminPrefix + path, method: http.MethodPost,
			handle: func(w http.ResponseWriter, r *http.Request, name string) { admin.serve(w, r, name, call) }}
	}
	return []route{
		post("check", (*admins).check),
		post("resign", (*admins).resign),
		post("transfer", (*admins).transfer),
		post("drain", (*admins).drain),
		post("undrain", (*admins).undrain),
		post("elections/{name}/resign", (*admins).resignElection),
		post("elections/{name}/transfer", (*admins).transferElection),
		post("effects/{name}/resolve", (*admins).resolve),
		post("processors/{name}/pause", (*admins).pause),
		post("processors/{name}/resume", (*admins).resume),
	}
}
