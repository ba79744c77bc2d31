package gateway

import (
	"context"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/internal/peer/budget"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Config configures a Gateway.
type Config struct {
	Router   *route.Router
	Map      route.Map
	Services *host.Services
	// Host and Self are this node's host and address; nil and empty if it takes no part in the shards.
	Host *host.Host
	Self string
	// Prefix identifies the cluster.
	Prefix string
	// Current is the same as in route.Config.
	Current func() context.Context
	// Budget counts the bytes that calls from outside, and streams, hold while they wait. Nil means no limit.
	Budget *budget.Budget
}

// Gateway accepts calls to objects. All methods are safe for concurrent use.
type Gateway struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

// New returns a Gateway, which starts no goroutines.
func New(cfg Config) *Gateway {
	if cfg.Current == nil {
		cfg.Current = context.Background
	}
	g := &Gateway{cfg: cfg}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close ends the calls that have no time limit: forwarded streams, and watches of the routes. It does not wait
// for them.
func (g *Gateway) Close() { g.cancel() }

func failedReply(err error) *objectspb.Reply { return &objectspb.Reply{Status: serializeStatus(err)} }

// serializeStatus returns an error in the form in which replies carry it.
func serializeStatus(err error) []byte {
	raw, merr := proto.Marshal(status.Convert(err).Proto())
	if merr != nil || len(raw) == 0 || len(raw) > math.MaxInt32 {
		raw, _ = proto.Marshal(status.New(codes.Internal, "the call failed, with a status that cannot be sent").Proto())
	}
	return raw
}
