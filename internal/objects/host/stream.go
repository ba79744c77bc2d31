package host

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// ServeStream makes a streaming call over a stream of gRPC's server, and blocks until the call ends. The gRPC handler
// must then return. The error is a gRPC status, or one for which [IsMoved] is true. The method's context and the call
// end as soon as the shard must be handed over, unless a turn in that shard waits for the call. The reason is that
// streams may stay open without limit, and the shard does not wait for them.
func (h *Host) ServeStream(c *Call, stream grpc.ServerStream) error {
	ctx := stream.Context()
	c.stream = stream
	if err := c.takeTurn(ctx, h); err != nil {
		return err
	}
	leaves := h.cfg.Shards.Staying(c.Shard)
	if c.awaitedByTurn = h.MustRunHere(c.Shard, c.Chain); c.awaitedByTurn {
		leaves = h.cfg.Shards.Drained(c.Shard)
	}
	c.registerStream()
	defer c.unregisterStream()
	c.startTurn()
	select {
	case err := <-c.outcome:
		if status.Code(err) != codes.Canceled || leaves.Err() == nil && !c.isDropped() {
			return err
		}
	case <-leaves.Done():
		// The method may be waiting for a message. That wait ends when gRPC's handler has returned.
	case <-c.dropped:
	}
	return errStreamCut
}

// registerStream registers the stream, which ends when its object is dropped.
func (c *Call) registerStream() {
	o := c.turn.object
	c.dropped = make(chan struct{})
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	e := o.ensureExtras()
	if e.streams == nil {
		e.streams = map[*Call]struct{}{}
	}
	e.streams[c] = struct{}{}
	if o.dropReason != "" { // dropped since the stream got its turn
		e.endOpenWork()
	}
}

// isDropped reports whether the object of a registered stream was dropped.
func (c *Call) isDropped() bool {
	select {
	case <-c.dropped:
		return true
	default:
		return false
	}
}

// unregisterStream undoes registerStream.
func (c *Call) unregisterStream() {
	o := c.turn.object
	o.home.mu.Lock()
	defer o.home.mu.Unlock()
	if o.extras != nil {
		delete(o.extras.streams, c)
	}
}

// errDropped is the cause with which the context of a stream ends when its object is dropped.
var errDropped = errors.New("the object is dropped")

var errStreamCut = hosted.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
	"objects: the object of this stream was dropped, or is handed over to another node: call again")

// performStream runs a streaming method and converts its error for the caller.
func (c *Call) performStream() error {
	err := c.runStream(&turnStream{ServerStream: c.stream, ctx: c.ctx})
	if err == nil && !c.holdsShard() {
		return errFormerOwner
	}
	return c.errorForCaller(err)
}

// runStream runs a streaming method within the interceptors.
func (c *Call) runStream(stream grpc.ServerStream) error {
	impl, around, desc := c.turn.object.impl, c.turn.home.host.cfg.Stream, c.Method.Stream
	if around == nil {
		return desc.Handler(impl, stream)
	}
	return around(impl, stream, &grpc.StreamServerInfo{FullMethod: c.Method.Name,
		IsClientStream: desc.ClientStreams, IsServerStream: desc.ServerStreams}, desc.Handler)
}

// turnStream is a stream with the context of its turn.
type turnStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *turnStream) Context() context.Context { return s.ctx }
