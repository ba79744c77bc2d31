package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/hosted"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// insideCall is a call from another node, and its reply. It is reused for later calls of the same link, which saves
// the allocations for each call.
type insideCall struct {
	gateway *Gateway
	in      *link.Incoming
	call    host.Call
	request host.Raw
	reply   objectspb.Reply
	space   []byte // for the response

	onEnd    func(error)
	onCancel func()
}

// maxSpace limits the bytes kept for the response of a later call.
const maxSpace = 8 << 10

// insideCallOf returns the insideCall that serves a call.
func (g *Gateway) insideCallOf(in *link.Incoming) *insideCall {
	s, ok := in.Scratch.(*insideCall)
	if !ok {
		s = &insideCall{gateway: g}
		s.onEnd, s.onCancel = s.endCall, s.cancelCall
		in.Scratch = s
	}
	s.in = in
	return s
}

// Freed implements link.Freer. It drops all references to the call and its object until the next call.
func (s *insideCall) Freed() {
	r := &s.reply
	r.Response, r.Status, r.Header, r.Trailer, r.Moved = nil, nil, nil, nil, 0
	s.call.Reset()
}

// Serve implements link.Handler.
func (g *Gateway) Serve(in *link.Incoming) {
	s := g.insideCallOf(in)
	if err := s.prepareCall(); err != nil {
		in.Reply(failedReply(err))
		return
	}
	g.cfg.Host.ServeCall(&s.call, s.onEnd)
	in.OnCancel(s.onCancel)
}

// maxTimeout bounds the timeout that a caller may ask for.
const maxTimeout = 365 * 24 * time.Hour

// prepareCall prepares the call from the message that arrived.
func (s *insideCall) prepareCall() error {
	g, c := s.gateway, s.in.Call
	method := g.cfg.Services.Method(c.GetMethod())
	switch {
	case g.cfg.Host == nil:
		return hosted.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node hosts no objects")
	case method == nil || method.Unary == nil:
		return route.UnimplementedError(g.cfg.Services, c.GetMethod(), g.cfg.Self)
	case c.GetTimeout() < 0:
		return status.FromContextError(context.DeadlineExceeded).Err()
	}
	key := string(c.GetKey())
	if err := route.CheckKey(key); err != nil {
		return err
	}
	if err := route.CheckChain(len(c.GetChain())); err != nil {
		return err
	}
	shard, known := g.cfg.Map.Shard(key)
	if !known {
		return hosted.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node knows no shard map yet")
	}
	call := &s.call
	call.Method, call.Shard, call.Key, call.Generation = method, shard, key, c.GetGeneration()
	call.Chain, call.Metadata = c.GetChain(), route.FromHeaders(c.GetMetadata())
	if t := min(time.Duration(c.GetTimeout()), maxTimeout); t > 0 {
		call.Deadline.At = time.Now().Add(t)
	}
	s.request = c.GetRequest()
	call.Request, call.Response = &s.request, s
	call.Peer, _ = peer.FromContext(s.in.Context())
	return nil
}

// Take implements host.Taker.
func (s *insideCall) Take(response any) (err error) {
	s.reply.Response, err = host.AppendMarshal(s.space[:0], response)
	return err
}

// endCall answers the call.
func (s *insideCall) endCall(err error) {
	r := &s.reply
	switch {
	case host.IsMoved(err):
		_, generation := s.gateway.cfg.Map.Owner(s.call.Shard)
		r.Moved = max(1, generation)
	case err != nil:
		r.Status = serializeStatus(err)
	}
	r.Header, r.Trailer = route.ToHeaders(s.call.Header), route.ToHeaders(s.call.Trailer)
	if cap(r.Response) <= maxSpace {
		s.space = r.Response
	}
	s.in.Reply(r)
}

// cancelCall ends a call that no caller waits for any longer.
func (s *insideCall) cancelCall() {
	if s.gateway.cfg.Host.CancelCall(&s.call) {
		s.in.Reply(failedReply(status.FromContextError(context.Canceled).Err()))
	}
}
