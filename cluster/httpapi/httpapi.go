package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
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
	// LeaderTimeout bounds the question to etcd behind /cluster/leader. Default 2 s.
	LeaderTimeout time.Duration
	// Processors are the program's, for /cluster/processors and the metrics: the Status of a
	// processor.Group, for example. It must not block, and no two may have one name. Default: none.
	Processors func() []processor.Status
}

func (o Options) withDefaults() Options {
	if o.LeaderTimeout <= 0 {
		o.LeaderTimeout = 2 * time.Second
	}
	if o.Processors == nil {
		o.Processors = func() []processor.Status { return nil }
	}
	return o
}

// routes in the order in which they are named to a caller that asks for something else.
var routes = [...]string{"/livez", "/readyz", "/readyz/reads", "/readyz/writes", "/leaderz",
	"/metrics", "/cluster/status", "/cluster/leader", "/cluster/shards",
	"/cluster/processors", "/cluster/objects", "/cluster/health"}

// New makes the handler of every route named in the package comment. Other paths
// are answered with 404 and other methods than GET and HEAD with 405. It starts no
// goroutine.
func New(source Source, opts Options) http.Handler {
	return newHandler(source, func() objectView { return objectsOf(source) }, opts)
}

func newHandler(source Source, view func() objectView, opts Options) http.Handler {
	a := &api{source: source, objects: view, opts: opts.withDefaults()}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", a.livez)
	mux.HandleFunc("/readyz", a.readyz)
	mux.HandleFunc("/readyz/reads", a.readyReads)
	mux.HandleFunc("/readyz/writes", a.readyWrites)
	mux.HandleFunc("/leaderz", a.leaderz)
	mux.Handle("/metrics", a.metricsHandler())
	mux.HandleFunc("/cluster/status", a.status)
	mux.HandleFunc("/cluster/leader", a.leader)
	mux.HandleFunc("/cluster/shards", a.shards)
	mux.HandleFunc("/cluster/processors", a.processors)
	mux.HandleFunc("/cluster/objects", a.objectsPage)
	mux.HandleFunc("/cluster/health", a.health)
	mux.HandleFunc("/", notFound)
	return readOnly(mux)
}

type api struct {
	source  Source
	objects func() objectView
	opts    Options
}

// readOnly refuses every method that could be meant to change something.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeError(w, http.StatusMethodNotAllowed, "use GET or HEAD: nothing can be changed here")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "no such page; there are "+strings.Join(routes[:], ", "))
}

// errorBody is every answer that is not what was asked for.
type errorBody struct {
	Error string `json:"error"`
}

func writeError(w http.ResponseWriter, code int, message string) {
	writeJSON(w, code, errorBody{Error: message})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
