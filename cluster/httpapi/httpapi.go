package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/automation"
	"github.com/goverse/goverse/cluster/httpapi/internal/dashboard"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/callback"
)

// Source supplies the data that the handler serves; *cluster.Cluster implements it. All methods are called
// concurrently. A Source that is also an ObjectSource shows its objects.
type Source interface {
	// Status returns the node's view. It must not block.
	Status() cluster.Status
	// LeaderInfo returns details about the leader, and an error if there is none. It may ask etcd.
	LeaderInfo(ctx context.Context) (cluster.LeaderInfo, error)
	// ShardTable returns the node's view of the shards, and an error if there is no map. It must not block.
	ShardTable() (shard.Table, error)
}

// Options configures what the handler does not get from its source. The zero value works.
type Options struct {
	// Version is the program's version, shown in /cluster/health and in the metrics.
	Version string
	// LeaderTimeout limits the requests to etcd behind /cluster/leader and the cluster-wide lists. A list that
	// would take longer is cut short. Default 2 s.
	LeaderTimeout time.Duration
	// Processors returns the program's processors, for /cluster/processors and the metrics: for example, the
	// Status of a processor.Group. It must not block, and names must be unique. Default: none. If the source is a
	// *cluster.Cluster, New passes them to its ReportProcessors.
	Processors func() []processor.Status
	// Automations returns the program's automations, for /cluster/automations and the metrics: the Status of each. It must
	// not block, and names must be unique. Default: none.
	Automations func() []automation.Status
	// Checkpoints shows and changes the processors of the whole cluster, for /cluster/processors/all and the admin
	// calls. Default: Cluster.Checkpoints, those in etcd. For processors with checkpoints in PostgreSQL, give it the
	// one of package postgres.
	Checkpoints processor.Manager
	// Certificates returns the certificates in use, for the metrics: for example, the Expiries of
	// mtls.Certificates. It must not block, and pairs of Use and File must be unique. Default: none.
	Certificates func() []Certificate
	// MaxRequests limits the concurrent requests. Probes do not count and are always answered. Default 64.
	MaxRequests int
	// MaxStreams limits the concurrent streams. Default 64.
	MaxStreams int
	// Admin enables the calls that change something. Nil disables them.
	Admin *Admin
	// NoDashboard disables the dashboard at "/".
	NoDashboard bool
}

func (o Options) withDefaults() Options {
	if o.LeaderTimeout <= 0 {
		o.LeaderTimeout = 2 * time.Second
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = 64
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = 64
	}
	askCertificates, askProcessors, askAutomations := o.Certificates, o.Processors, o.Automations
	o.Certificates = func() []Certificate { return callUser(askCertificates) }
	o.Processors = func() []processor.Status { return callUser(askProcessors) }
	o.Automations = func() []automation.Status { return callUser(askAutomations) }
	return o
}

// callUser returns the result of one of the program's functions, or nothing if that is nil, panics or exits its
// goroutine. A scrape ends all the same.
func callUser[T any](ask func() []T) (all []T) {
	if ask == nil || callback.Run(func() error { all = ask(); return nil }) != nil {
		return nil
	}
	return all
}

// Certificate is a certificate that the program uses.
type Certificate struct {
	// Use names its purpose in one word, and File the file that it was read from.
	Use, File string
	// NotAfter is the time at which it expires.
	NotAfter time.Time
}

// New returns a handler for every route named in the package comment. It answers other paths with 404, and
// unsupported methods with 405. It can be mounted below a prefix with http.StripPrefix. It starts no goroutine.
func New(source Source, opts Options) http.Handler {
	if c, ok := source.(*cluster.Cluster); ok && opts.Processors != nil {
		c.ReportProcessors(opts.Processors)
	}
	return newRouter(source, func() objectView { return objectsOf(source) }, opts)
}

func newRouter(source Source, view func() objectView, opts Options) *router {
	a := &api{source: source, objects: view, opts: opts.withDefaults(), lists: newCache(listTTL, maxReads),
		figures: newFiguresCache()}
	rt := &router{routes: a.routes(), slots: make(chan struct{}, a.opts.MaxRequests),
		streams: make(chan struct{}, a.opts.MaxStreams), source: source, pages: newCache(pushEvery, 0)}
	rt.routes = append(rt.routes, streamRoute("/cluster/stream", rt.streamPages))
	if !opts.NoDashboard {
		rt.routes = append(rt.routes, pageRoute("/", dashboard.Serve))
	}
	return rt
}

// routes returns the routes in the order in which a 404 lists them.
func (a *api) routes() []route {
	return append([]route{
		probeRoute("/livez", a.serveLivez),
		probeRoute("/readyz", a.serveReadyz),
		probeRoute("/readyz/reads", a.serveReadyReads),
		probeRoute("/readyz/writes", a.serveReadyWrites),
		probeRoute("/leaderz", a.serveLeaderz),
		pageRoute("/metrics", a.metricsHandler().ServeHTTP),
		pushedRoute("/cluster/status", a.serveStatus),
		pushedRoute("/cluster/leader", a.serveLeader),
		pushedRoute("/cluster/nodes", a.serveNodes),
		pushedRoute("/cluster/shards", a.serveShards),
		pushedRoute("/cluster/processors", a.serveProcessors),
		pushedRoute("/cluster/processors/all", a.serveAllProcessors),
		{path: "/cluster/processors/{name}/parked", method: http.MethodGet, handle: a.serveParked},
		pushedRoute("/cluster/automations", a.serveAutomations),
		pushedRoute("/cluster/objects", a.serveObjects),
		pageRoute("/cluster/figures", a.serveFigures),
		pushedRoute("/cluster/elections", a.serveElections),
		pushedRoute("/cluster/locks", a.serveLocks),
		pushedRoute("/cluster/effects", a.serveEffects),
		pushedRoute("/cluster/events", a.serveEvents),
		pushedRoute("/cluster/health", a.serveHealth),
		streamRoute("/cluster/events/stream", a.streamEvents),
		pageRoute("/openapi.json", serveOpenAPI),
	}, a.adminRoutes()...)
}

type api struct {
	source  Source
	objects func() objectView
	opts    Options
	lists   *cache // of etcd
	figures *cache // of all nodes
}

// writeJSON sends a response with a JSON body.
func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
