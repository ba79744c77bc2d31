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
	// AwaitChange blocks until the map has that generation and names another owner for the shard, or has a later
	// one; or ctx ends. The error says what is in the way, and wraps the cause of ctx if that is it.
	AwaitChange(ctx context.Context, shard int, owner string, generation int64) error
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

// Close is to be called once, when no call is made any more.
func (r *Router) Close() {
	r.leave()
	if r.nowhere != nil {
		_ = r.nowhere.Close()
	}
}
