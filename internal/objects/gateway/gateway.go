package gateway

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/link"
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
}

// Gateway lets calls in. All methods are safe for concurrent use.
type Gateway struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

// New makes a gateway, which runs nothing by itself.
func New(cfg Config) *Gateway {
	g := &Gateway{cfg: cfg}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close ends what stays open for as long as others like: streams that are forwarded, and watches of the routes. It
// does not wait for them.
func (g *Gateway) Close() { g.cancel() }

// Serve implements link.Handler.
func (g *Gateway) Serve(in *link.Incoming) {
	call, err := g.accept(in)
	if err != nil {
		in.Reply(failed(err))
		return
	}
	reply := &objectspb.Reply{}
	call.Reply = func(response any, header, trailer metadata.MD) (err error) {
		reply.Header, reply.Trailer = route.ToHeaders(header), route.ToHeaders(trailer)
		if response != nil {
			reply.Response, err = host.Marshal(response)
		}
		return err
	}
	g.cfg.Host.Serve(call, func(err error) {
		switch {
		case host.Moved(err):
			_, generation := g.cfg.Map.Owner(call.Shard)
			reply.Moved = max(1, generation)
		case err != nil:
			reply.Status = serialized(err)
		}
		in.Reply(reply)
	})
	in.OnCancel(func() {
		if g.cfg.Host.Cancel(call) {
			in.Reply(failed(status.FromContextError(context.Canceled).Err()))
		}
	})
}

// longest is the longest time that a caller is taken to wait.
const longest = 365 * 24 * time.Hour

// accept makes a call of what arrived.
func (g *Gateway) accept(in *link.Incoming) (*host.Call, error) {
	c := in.Call
	method := g.cfg.Services.Method(c.GetMethod())
	switch {
	case g.cfg.Host == nil:
		return nil, objects.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node hosts no objects")
	case method == nil || method.Unary == nil:
		return nil, route.Unimplemented(g.cfg.Services, c.GetMethod())
	case c.GetTimeout() < 0:
		return nil, status.FromContextError(context.DeadlineExceeded).Err()
	}
	key := string(c.GetKey())
	if err := route.CheckKey(key); err != nil {
		return nil, err
	}
	shard, known := g.cfg.Map.Shard(key)
	if !known {
		return nil, objects.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node knows no shard map yet")
	}
	call := &host.Call{Method: method, Shard: shard, Key: key, Generation: c.GetGeneration(), Chain: c.GetChain(),
		Metadata: route.FromHeaders(c.GetMetadata())}
	if t := min(time.Duration(c.GetTimeout()), longest); t > 0 {
		call.Deadline = time.Now().Add(t)
	}
	call.Peer, _ = peer.FromContext(in.Context())
	request := c.GetRequest()
	call.Decode = func(m any) error { return host.Unmarshal(request, m) }
	return call, nil
}

func failed(err error) *objectspb.Reply { return &objectspb.Reply{Status: serialized(err)} }

// serialized is an error as it travels.
func serialized(err error) []byte {
	raw, merr := proto.Marshal(status.Convert(err).Proto())
	if merr != nil || len(raw) == 0 || len(raw) > math.MaxInt32 {
		raw, _ = proto.Marshal(status.New(codes.Internal, "the call failed, with a status that cannot be sent").Proto())
	}
	return raw
}
