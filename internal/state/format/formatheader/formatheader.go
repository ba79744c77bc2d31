// Package formatheader states the format of the messages between nodes in a gRPC header. The header of a stream holds
// for all its messages.
package formatheader

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/state/format"
)

// Name is the name of the header. A call without it is in format 1.
const Name = "goverse-format"

// DialOptions returns the options of a connection on which calls state their format.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(Add(ctx), method, req, reply, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn,
			method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(Add(ctx), desc, conn, method, opts...)
		}),
	}
}

// Add returns a context for calls that state their format. It replaces the format of a call that is passed on.
func Add(ctx context.Context) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(Name, strconv.Itoa(format.First))
	return metadata.NewOutgoingContext(ctx, md)
}

// Check returns the status with which a node refuses a call in a format that it does not read.
func Check(ctx context.Context) error {
	for _, said := range metadata.ValueFromIncomingContext(ctx, Name) {
		found, err := strconv.Atoi(said)
		if err != nil {
			return status.Errorf(codes.InvalidArgument, "the header %s is not a number", Name)
		}
		if err := format.Own().Check("the call", found, ""); err != nil {
			return status.Error(codes.FailedPrecondition, err.Error())
		}
	}
	return nil
}

// CheckUnary is an interceptor that refuses calls in a format that this node does not read.
func CheckUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := Check(ctx); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// CheckStream is CheckUnary for streams.
func CheckStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := Check(stream.Context()); err != nil {
		return err
	}
	return handle(server, stream)
}
