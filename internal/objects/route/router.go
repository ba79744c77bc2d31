package route

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/link"
)

// Map says who owns what, as far as this process knows.
type Map interface {
	// Shard is the shard of a key; false while it is not known how many there are.
	Shard(key string) (int, bool)
	// Owner is the address of the node that owns a shard, "" if nobody does, and the generation of the map that
	// says so.
	Owner(shard int) (address string, generation int64)
	// Former is the address of the node that is yet to release a shard to its owner, "" if there is none: what the shard
	// waits for there runs there.
	Former(shard int) string
	// AwaitChange blocks until the map says something else of a shard than was seen ([Seen.Changed]), or ctx ends. The
	// error says what is in the way, and wraps the cause of ctx if that is it.
	AwaitChange(ctx context.Context, shard int, seen Seen) error
}

// Seen is what a caller knows of a shard whose owner did not take its call.
type Seen struct {
	Owner      string // "": nobody
	Generation int64  // of the map that says so
	// Named is the generation in which another node owns the shard, according to the owner; 0: it named none.
	Named int64
}

// Changed reports whether calls are to be made by the map of that generation, which names that owner: it is a later one
// than was seen, and not older than the one that was named; or it names another owner. One that is older than was seen
// is of another history, since etcd was restored from a backup: what was seen means nothing then.
func (s Seen) Changed(owner string, generation int64) bool {
	switch {
	case generation > s.Generation:
		return generation >= s.Named
	case generation == s.Generation:
		return owner != s.Owner
	}
	return true
}

// Config is what a router needs.
type Config struct {
	Map  Map
	Pool *link.Pool
	// Prefix names the cluster.
	Prefix string
	// Host and Self are this node's; nil and empty where it hosts nothing.
	Host *host.Host
	Self string
	// Services are those that are registered in this process; nil: none.
	Services *host.Services
	// Idempotent are full names of further methods of which a call may be repeated although it may have run.
	Idempotent map[string]bool
	// CallTimeout is the deadline of unary calls that have none. Default 30 s.
	CallTimeout time.Duration
	// Current is a context that ends when this node's map may be out of date, with the reason as its cause, and has ended
	// as long as it may be. Calls from outside do not wait then. Nil: it always goes on.
	Current func() context.Context
	// Unary and Stream are around each call that is made here; nil: none.
	Unary  grpc.UnaryClientInterceptor
	Stream grpc.StreamClientInterceptor
	Logger hclog.Logger
}

// Router makes calls. All methods are safe for concurrent use.
type Router struct {
	cfg     Config
	figures Figures
	// nowhere is what interceptors get that ask for a connection; nothing is sent on it.
	nowhere *grpc.ClientConn

	leaving context.Context
	leave   context.CancelFunc
}

// New makes a router, which runs nothing by itself.
func New(cfg Config) (*Router, error) {
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = 30 * time.Second
	}
	if cfg.Current == nil {
		cfg.Current = context.Background
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	r := &Router{cfg: cfg}
	r.leaving, r.leave = context.WithCancel(context.Background())
	if cfg.Unary != nil || cfg.Stream != nil {
		var err error
		if r.nowhere, err = newNowhere(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Leave has no call wait any longer for the owner of its object: those that do, and those that would have to, fail with
// UNAVAILABLE. Calls that are under way go on.
func (r *Router) Leave() { r.leave() }

// mayWait is why a call may not wait for an owner, nil if it may.
func (r *Router) mayWait(outside bool) error {
	if r.leaving.Err() != nil {
		return errStops
	}
	if outside {
		return context.Cause(r.cfg.Current())
	}
	return nil
}

// endWaits calls cancel when mayWait is an error, unless release is called before.
func (r *Router) endWaits(outside bool, cancel func()) (release func()) {
	stop := context.AfterFunc(r.leaving, cancel)
	if !outside {
		return func() { stop() }
	}
	other := context.AfterFunc(r.cfg.Current(), cancel)
	return func() {
		stop()
		other()
	}
}

// Close is to be called once, when no call is made any more.
func (r *Router) Close() {
	r.leave()
	if r.nowhere != nil {
		_ = r.nowhere.Close()
	}
}
