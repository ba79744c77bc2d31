package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// inside is a call from another node, and its reply. It is reused for later calls of the same link, which saves
// the allocations for each call.
type inside struct {
	gateway *Gateway
	in      *link.Incoming
	call    host.Call
	reply   objectspb.Reply
	space   []byte // for the response

	ended     func(error)
	cancelled func()
}

// maxSpace limits the bytes kept for the response of a later call.
const maxSpace = 8 << 10

// insideOf returns the inside that serves a call.
func (g *Gateway) insideOf(in *link.Incoming) *inside {
	s, ok := in.Scratch.(*inside)
	if !ok {
		s = &inside{gateway: g}
		s.call.Decode, s.call.Reply, s.ended, s.cancelled = s.decode, s.respond, s.end, s.cancel
		in.Scratch = s
	}
	s.in = in
	return s
}

// Freed implements link.Freer. It drops all references to the call and its object until the next call.
func (s *inside) Freed() {
	r := &s.reply
	r.Response, r.Status, r.Header, r.Trailer, r.Moved = nil, nil, nil, nil, 0
	s.call.Forget()
}

// Serve implements link.Handler.
func (g *Gateway) Serve(in *link.Incoming) {
	s := g.insideOf(in)
	if err := s.accept(); err != nil {
		in.Reply(failed(err))
		return
	}
	g.cfg.Host.Serve(&s.call, s.ended)
	in.OnCancel(s.cancelled)
}

// longest bounds the timeout that a caller may ask for.
const longest = 365 * 24 * time.Hour

// accept prepares the call from the message that arrived.
func (s *inside) accept() error {
	g, c := s.gateway, s.in.Call
	method := g.cfg.Services.Method(c.GetMethod())
	switch {
	case g.cfg.Host == nil:
		return objects.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node hosts no objects")
	case method == nil || method.Unary == nil:
		return route.Unimplemented(g.cfg.Services, c.GetMethod(), g.cfg.Self)
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
		return objects.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node knows no shard map yet")
	}
	call := &s.call
	call.Method, call.Shard, call.Key, call.Generation = method, shard, key, c.GetGeneration()
	call.Chain, call.Metadata = c.GetChain(), route.FromHeaders(c.GetMetadata())
	call.Deadline = time.Time{}
	if t := min(time.Duration(c.GetTimeout()), longest); t > 0 {
		call.Deadline = time.Now().Add(t)
	}
	call.Peer, _ = peer.FromContext(s.in.Context())
	return nil
}

// decode implements host.Call's Decode.
func (s *inside) decode(request any) error { return host.Unmarshal(s.in.Call.GetRequest(), request) }

// respond implements host.Call's Reply.
func (s *inside) respond(response any, header, trailer metadata.MD) (err error) {
	r := &s.reply
	r.Header, r.Trailer = route.ToHeaders(header), route.ToHeaders(trailer)
	if response != nil {
		r.Response, err = host.AppendMarshal(s.space[:0], response)
	}
	return err
}

// end answers the call.
func (s *inside) end(err error) {
	r := &s.reply
	switch {
	case host.Moved(err):
		_, generation := s.gateway.cfg.Map.Owner(s.call.Shard)
		r.Moved = max(1, generation)
	case err != nil:
		r.Status = serialized(err)
	}
	if !s.call.Reusable(err) {
		s.in.Scratch = nil
	} else if cap(r.Response) <= maxSpace {
		s.space = r.Response
	}
	s.in.Reply(r)
}

// cancel ends a call that no caller waits for any longer.
func (s *inside) cancel() {
	if s.gateway.cfg.Host.Cancel(&s.call) {
		s.in.Reply(failed(status.FromContextError(context.Canceled).Err()))
	}
}
