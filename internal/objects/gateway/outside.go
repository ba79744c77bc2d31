package gateway

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/hosted"
	"github.com/goverse/goverse/internal/objects/route"
)

// RegisterService registers a service of objects with a gRPC server. current returns the gateway, or the error of a
// node that does not run.
func RegisterService(server grpc.ServiceRegistrar, desc *grpc.ServiceDesc, current func() (*Gateway, error)) {
	outside := grpc.ServiceDesc{ServiceName: desc.ServiceName, HandlerType: (*any)(nil), Metadata: desc.Metadata}
	for _, m := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + m.MethodName
		outside.Methods = append(outside.Methods, grpc.MethodDesc{MethodName: m.MethodName,
			Handler: func(_ any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
				// The generated handler only decodes the request, because it knows the type. The rest is done
				// here.
				return m.Handler(nil, ctx, decode,
					func(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
						handle := func(ctx context.Context, request any) (any, error) {
							g, err := current()
							if err != nil {
								return nil, err
							}
							return g.serveUnary(ctx, name, request)
						}
						if around == nil {
							return handle(ctx, request)
						}
						return around(ctx, request, info, handle)
					})
			}})
	}
	for _, s := range desc.Streams {
		name := "/" + desc.ServiceName + "/" + s.StreamName
		outside.Streams = append(outside.Streams, grpc.StreamDesc{StreamName: s.StreamName,
			ServerStreams: s.ServerStreams, ClientStreams: s.ClientStreams,
			Handler: func(_ any, stream grpc.ServerStream) error {
				g, err := current()
				if err != nil {
					return err
				}
				return g.serveStream(name, stream)
			}})
	}
	server.RegisterService(&outside, struct{}{})
}

// serveUnary serves a call from outside.
func (g *Gateway) serveUnary(ctx context.Context, method string, request any) (any, error) {
	in, err := route.ReadHeaders(ctx)
	if err == nil {
		err = g.checkCurrent()
	}
	if err != nil {
		return nil, err
	}
	held, err := g.holdRequest(ctx, &in, request)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	var response takenResponse
	call := g.cfg.Router.NewCall()
	defer g.cfg.Router.FreeCall(call)
	call.Name, call.Key, call.Metadata, call.Request, call.Response = method, in.Key, in.Metadata, request, &response
	call.RequestOwned, call.Outside = true, true
	err = g.cfg.Router.Do(ctx, call)
	_ = grpc.SetHeader(ctx, call.Header) // fails only if the call has ended
	_ = grpc.SetTrailer(ctx, call.Trailer)
	if err != nil {
		return nil, err
	}
	return response.message, nil
}

// checkCurrent returns the error for calls from outside while this node's map may be out of date. Another node may
// have a current map.
func (g *Gateway) checkCurrent() error {
	why := context.Cause(g.cfg.Current())
	if why == nil {
		return nil
	}
	return hosted.Error(codes.Unavailable, objects.ReasonNotStarted,
		"objects: the call was not started: "+why.Error()+": call another node")
}

// takenResponse holds a response on its way to the client.
type takenResponse struct{ message proto.Message }

// Take implements host.Taker. It copies a message, because the object may keep it.
func (t *takenResponse) Take(response any) error {
	switch m := response.(type) {
	case proto.Message:
		t.message = proto.Clone(m)
	case host.Raw:
		t.message = rawMessage(m)
	default:
		raw, err := host.AppendMarshal(nil, response)
		if err != nil {
			return err
		}
		t.message = rawMessage(raw)
	}
	return nil
}

// rawMessage returns a message that is serialized as exactly these bytes: all of its fields are unknown.
func rawMessage(raw []byte) proto.Message {
	m := &emptypb.Empty{}
	m.ProtoReflect().SetUnknown(raw)
	return m
}

// serveStream serves a streaming call, from outside or from another node.
func (g *Gateway) serveStream(method string, stream grpc.ServerStream) error {
	ctx := stream.Context()
	in, err := route.ReadHeaders(ctx)
	if err != nil {
		return err
	}
	if in.Forwarded && in.Prefix != g.cfg.Prefix {
		return otherClusterError(g.cfg.Prefix, in.Prefix)
	}
	m := g.cfg.Services.Method(method)
	if m == nil || m.Stream == nil {
		return route.UnimplementedError(g.cfg.Services, method, g.cfg.Self)
	}
	if !in.Forwarded {
		if err := g.checkCurrent(); err != nil {
			return err
		}
	}
	n, known := g.cfg.Map.Shard(in.Key)
	if !known {
		return hosted.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node knows no shard map yet")
	}
	owner, _ := g.cfg.Map.Owner(n)
	here := g.cfg.Host != nil && (in.Forwarded || owner == g.cfg.Self)
	counted, err := g.countStream(stream, in.Metadata, m.Stream.ClientStreams, !here)
	if err != nil {
		return err
	}
	defer counted.releaseHold()
	stream = counted
	if here {
		call := &host.Call{Method: m, Shard: n, Key: in.Key, Generation: in.Generation, Chain: in.Chain,
			Metadata: in.Metadata}
		call.Deadline.At, _ = ctx.Deadline()
		call.Peer, _ = peer.FromContext(ctx)
		err := g.cfg.Host.ServeStream(call, stream)
		if !host.IsMoved(err) {
			return err
		}
	}
	if in.Forwarded {
		return hosted.Error(codes.Unavailable, objects.ReasonNotStarted,
			"objects: the object's shard has moved while the call was under way: call again")
	}
	return g.forwardStream(ctx, in, m, stream)
}

// forwardStream forwards a streaming call to the owner of its object.
func (g *Gateway) forwardStream(ctx context.Context, in route.CallHeaders, m *host.Method,
	stream grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, forwardableMetadata(in.Metadata)))
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	out, err := g.cfg.Router.ForwardStream(ctx, in.Key, m.Name)
	if err != nil {
		if g.ctx.Err() != nil {
			return hosted.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: this node stops")
		}
		return err
	}
	// The goroutine ends with the stream, which ends when forwardStream returns.
	go func() {
		for {
			var message emptypb.Empty
			switch err := stream.RecvMsg(&message); {
			case errors.Is(err, io.EOF):
				_ = out.CloseSend() // receiving returns its error
				return
			case err != nil:
				cancel()
				return
			}
			if err := out.SendMsg(&message); err != nil {
				return // receiving returns the reason
			}
		}
	}()
	header, err := out.Header()
	if err == nil {
		err = stream.SendHeader(header)
	}
	for err == nil {
		var message emptypb.Empty
		if err = out.RecvMsg(&message); err == nil {
			err = stream.SendMsg(&message)
		}
	}
	stream.SetTrailer(out.Trailer())
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case g.ctx.Err() != nil:
		return hosted.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
			"objects: the node that forwarded this stream stops: call again")
	}
	return status.Convert(err).Err()
}

// forwardableMetadata returns the metadata without the headers that gRPC sets itself.
func forwardableMetadata(md metadata.MD) metadata.MD {
	md = md.Copy()
	for name := range md {
		if name == "content-type" || name == "user-agent" || name == "te" || strings.HasPrefix(name, ":") ||
			strings.HasPrefix(name, "grpc-") {
			md.Delete(name)
		}
	}
	return md
}
