package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/shard"
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
	// LeaderTimeout bounds the questions to etcd behind /cluster/leader and the cluster-wide lists. Default 2 s.
	LeaderTimeout time.Duration
	// Processors are the program's, for /cluster/processors and the metrics: the Status of a
	// processor.Group, for example. It must not block, and no two may have one name. Default: none.
	Processors func() []processor.Status
	// MaxRequests is how many requests are served at a time; the probes are not among them, and are always
	// answered. Default 64.
	MaxRequests int
	// Admin switches the calls on that change something. Nil: they are off.
	Admin *Admin
}

func (o Options) withDefaults() Options {
	if o.LeaderTimeout <= 0 {
		o.LeaderTimeout = 2 * time.Second
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = 64
	}
	if o.Processors == nil {
		o.Processors = func() []processor.Status { return nil }
	}
	return o
}

// New makes the handler of every route named in the package comment. Other paths are answered with 404, and methods
// that a route has not with 405. It can be mounted below a prefix with http.StripPrefix. It starts no goroutine.
func New(source Source, opts Options) http.Handler {
	return newHandler(source, func() objectView { return objectsOf(source) }, opts)
}

func newHandler(source Source, view func() objectView, opts Options) *router {
	a := &api{source: source, objects: view, opts: opts.withDefaults(), lists: newCache(listTTL)}
	return &router{routes: a.routes(), slots: make(chan struct{}, a.opts.MaxRequests)}
}

// routes in the order in which they are named to a caller that asks for something else.
func (a *api) routes() []route {
	return append([]route{
		probed("/livez", a.livez),
		probed("/readyz", a.readyz),
		page("/metrics", a.metricsHandler().ServeHTTP),
		page("/cluster/status", a.status),
		page("/cluster/leader", a.leader),
		page("/cluster/nodes", a.nodes),
		page("/cluster/shards", a.shards),
		page("/cluster/processors", a.processors),
		page("/cluster/objects", a.objectsPage),
		page("/cluster/elections", a.elections),
		page("/cluster/locks", a.locks),
		page("/cluster/effects", a.effects),
		page("/cluster/health", a.health),
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
