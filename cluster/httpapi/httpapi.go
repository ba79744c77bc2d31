package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi/internal/dashboard"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/callback"
)

// Source is what the handler shows; *cluster.Cluster is one. All methods are
// called from many goroutines at once. One that also is an ObjectSource shows its objects.
type Source interface {
	// Status is the node's view. It must not block.
	Status() cluster.Status
	// LeaderInfo says more about the leader, and fails when there is none. It may
	// ask etcd.
	LeaderInfo(ctx context.Context) (cluster.LeaderInfo, error)
	// ShardTable is the node's view of the shards, and fails when there is no map. It must
	// not block.
	ShardTable() (shard.Table, error)
}

// Options are what the handler cannot get from its source. The zero value works.
type Options struct {
	// Version is the program's, shown in /cluster/health and in the metrics.
	Version string
	// LeaderTimeout bounds the questions to etcd behind /cluster/leader and the cluster-wide lists; a list that would
	// take longer is cut short. Default 2 s.
	LeaderTimeout time.Duration
	// Processors are the program's, for /cluster/processors and the metrics: the Status of a
	// processor.Group, for example. It must not block, and no two may have one name. Default: none.
	Processors func() []processor.Status
	// Certificates are those in use, for the metrics: the Expiries of mtls.Certificates, for example. It must not
	// block, and no two may have one Use and one File. Default: none.
	Certificates func() []Certificate
	// MaxRequests is how many requests are served at a time; the probes are not among them, and are always
	// answered. Default 64.
	MaxRequests int
	// MaxStreams is how many streams are served at a time. Default 64.
	MaxStreams int
	// Admin switches the calls on that change something. Nil: they are off.
	Admin *Admin
	// NoDashboard: there is no page for people at "/".
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
	if o.Processors == nil {
		o.Processors = func() []processor.Status { return nil }
	}
	askCertificates := o.Certificates
	if askCertificates == nil {
		askCertificates = func() []Certificate { return nil }
	}
	o.Certificates = func() []Certificate { return heard(askCertificates) }
	askProcessors := o.Processors
	o.Processors = func() []processor.Status { return heard(askProcessors) }
	return o
}

// heard is what a function of the program's says; nothing if it panics or leaves its goroutine: a scrape ends all the
// same.
func heard[T any](ask func() []T) (all []T) {
	if callback.Run(func() error { all = ask(); return nil }) != nil {
		return nil
	}
	return all
}

// Certificate is one that the program uses.
type Certificate struct {
	// Use says what for, in a word, and File is where it is from.
	Use, File string
	// NotAfter is when it expires.
	NotAfter time.Time
}

// New makes the handler of every route named in the package comment. Other paths are answered with 404, and methods
// that a route has not with 405. It can be mounted below a prefix with http.StripPrefix. It starts no goroutine.
func New(source Source, opts Options) http.Handler {
	return newHandler(source, func() objectView { return objectsOf(source) }, opts)
}

func newHandler(source Source, view func() objectView, opts Options) *router {
	a := &api{source: source, objects: view, opts: opts.withDefaults(), lists: newCache(listTTL, mostReads)}
	rt := &router{routes: a.routes(), slots: make(chan struct{}, a.opts.MaxRequests),
		streams: make(chan struct{}, a.opts.MaxStreams), source: source, pages: newCache(pushEvery, 0)}
	rt.routes = append(rt.routes, streaming("/cluster/stream", rt.pageStream))
	if !opts.NoDashboard {
		rt.routes = append(rt.routes, page("/", dashboard.Serve))
	}
	return rt
}

// routes in the order in which they are named to a caller that asks for something else.
func (a *api) routes() []route {
	return append([]route{
		probed("/livez", a.livez),
		probed("/readyz", a.readyz),
		probed("/readyz/reads", a.readyReads),
		probed("/readyz/writes", a.readyWrites),
		probed("/leaderz", a.leaderz),
		page("/metrics", a.metricsHandler().ServeHTTP),
		live("/cluster/status", a.status),
		live("/cluster/leader", a.leader),
		live("/cluster/nodes", a.nodes),
		live("/cluster/shards", a.shards),
		live("/cluster/processors", a.processors),
		live("/cluster/objects", a.objectsPage),
		live("/cluster/elections", a.elections),
		live("/cluster/locks", a.locks),
		live("/cluster/effects", a.effects),
		live("/cluster/events", a.events),
		live("/cluster/health", a.health),
		streaming("/cluster/events/stream", a.eventStream),
		page("/openapi.json", openAPI),
	}, a.adminRoutes()...)
}

type api struct {
	source  Source
	objects func() objectView
	opts    Options
	lists   *cache
}

// writeJSON answers with what was asked for.
func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
