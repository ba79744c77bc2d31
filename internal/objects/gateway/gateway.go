package gateway

import (
	"context"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/budget"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Config is what a gateway needs.
type Config struct {
	Router   *route.Router
	Map      route.Map
	Services *host.Services
	// Host and Self are this node's; nil and empty where it takes no part in the shards.
	Host *host.Host
	Self string
	// Prefix names the cluster.
	Prefix string
	// Current is that of route.Config.
	Current func() context.Context
	// Budget counts what calls from outside, and streams, hold while they wait. Nil: no limit.
	Budget *budget.Budget
}

// Gateway lets calls in. All methods are safe for concurrent use.
type Gateway struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

// New makes a gateway, which runs nothing by itself.
func New(cfg Config) *Gateway {
	if cfg.Current == nil {
		cfg.Current = context.Background
	}
	g := &Gateway{cfg: cfg}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close ends what stays open for as long as others like: streams that are forwarded, and watches of the routes. It
// does not wait for them.
func (g *Gateway) Close() { g.cancel() }

func failed(err error) *objectspb.Reply { return &objectspb.Reply{Status: serialized(err)} }

// serialized is an error as it travels.
func serialized(err error) []byte {
	raw, merr := proto.Marshal(status.Convert(err).Proto())
	if merr != nil || len(raw) == 0 || len(raw) > math.MaxInt32 {
		raw, _ = proto.Marshal(status.New(codes.Internal, "the call failed, with a status that cannot be sent").Proto())
	}
	return raw
}
