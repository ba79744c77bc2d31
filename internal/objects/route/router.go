package route

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/link"
)

// Map is the shard map as far as this process knows it.
type Map interface {
	// Shard returns the shard of a key. It returns false while the number of shards is unknown.
	Shard(key string) (int, bool)
	// Owner returns the address of the node that owns a shard, or "" if no node does, and the generation of the
	// map.
	Owner(shard int) (address string, generation int64)
	// Former returns the address of the node that has yet to release a shard to its owner, or "" if there is
	// none. The turns that the move waits for run on that node.
	Former(shard int) string
	// AwaitChange blocks until the map has changed since seen ([SeenOwner.ChangedBy]), or ctx ends. The error names
	// the obstacle, and wraps the cause of ctx if ctx has ended.
	AwaitChange(ctx context.Context, shard int, seen SeenOwner) error
}

// SeenOwner records the state of a shard when its owner did not accept a call.
type SeenOwner struct {
	Owner      string // "" means no owner
	Generation int64  // of the map that names the owner
	// Named is the generation of a map that assigns the shard to another node, as reported by the owner; 0
	// means that it reported none.
	Named int64
}

// ChangedBy reports whether calls should now follow the map of that generation, which names that owner. A map newer
// than the one seen must not be older than the one reported. A map of the same generation must name another owner.
// An older map is of another history, because etcd was restored from a backup; seen is void then.
func (s SeenOwner) ChangedBy(owner string, generation int64) bool {
	switch {
	case generation > s.Generation:
		return generation >= s.Named
	case generation == s.Generation:
		return owner != s.Owner
	}
	return true
}

// Config configures a Router.
type Config struct {
	Map  Map
	Pool *link.Pool
	// Prefix identifies the cluster.
	Prefix string
	// Host and Self are this node's host and address; nil and empty if it hosts no objects.
	Host *host.Host
	Self string
	// Services holds the services registered in this process; nil means none.
	Services *host.Services
	// Idempotent holds the full names of further methods that may be repeated although a call may have run.
	Idempotent map[string]bool
	// CallTimeout bounds unary calls that have no deadline. It is required.
	CallTimeout time.Duration
	// Current returns a context that ends when this node's map may be out of date, with the reason as its
	// cause. While the map may be out of date, the returned context has already ended. Calls from outside do
	// not wait then. Nil means that the map is always current.
	Current func() context.Context
	// Unary and Stream wrap each call that is made here; nil means none.
	Unary  grpc.UnaryClientInterceptor
	Stream grpc.StreamClientInterceptor
}

// Router sends calls to their objects. All methods are safe for concurrent use.
type Router struct {
	cfg      Config
	counters Counters
	calls    sync.Pool // of *host.Call; per router, so that none moves between synctest bubbles
	// dummyConn is the connection passed to interceptors. Nothing is sent on it.
	dummyConn *grpc.ClientConn

	waitsCtx  context.Context
	stopWaits context.CancelFunc
}

// New returns a Router, which starts no goroutines.
func New(cfg Config) (*Router, error) {
	if cfg.Current == nil {
		cfg.Current = context.Background
	}
	r := &Router{cfg: cfg}
	r.waitsCtx, r.stopWaits = context.WithCancel(context.Background())
	if cfg.Unary != nil || cfg.Stream != nil {
		var err error
		if r.dummyConn, err = newDummyConn(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// StopWaits makes calls fail with UNAVAILABLE that wait for the owner of their object, or would have to. Calls that
// are in flight continue.
func (r *Router) StopWaits() { r.stopWaits() }

// mayWait returns nil if a call may wait for an owner, otherwise the reason why not.
func (r *Router) mayWait(outside bool) error {
	if r.waitsCtx.Err() != nil {
		return errNodeStops
	}
	if outside {
		return context.Cause(r.cfg.Current())
	}
	return nil
}

// endWaits calls cancel as soon as mayWait returns an error, unless release is called before.
func (r *Router) endWaits(outside bool, cancel func()) (release func()) {
	stop := context.AfterFunc(r.waitsCtx, cancel)
	if !outside {
		return func() { stop() }
	}
	other := context.AfterFunc(r.cfg.Current(), cancel)
	return func() {
		stop()
		other()
	}
}

// Close must be called once, after all calls have ended.
func (r *Router) Close() {
	r.stopWaits()
	if r.dummyConn != nil {
		_ = r.dummyConn.Close()
	}
}
