// Package interceptor makes one gRPC interceptor of several, the first one outermost, as gRPC does inside. Where
// there are none it returns nil.
//
// Not promised: what gRPC's own do beyond the order.
package interceptor

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryServer is for calls that are served.
func UnaryServer(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(all) < 2 {
		return first(all)
	}
	outer, inner := all[0], UnaryServer(all[1:])
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, handler)
		})
	}
}

// StreamServer is for streams that are served.
func StreamServer(all []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if len(all) < 2 {
		return first(all)
	}
	outer, inner := all[0], StreamServer(all[1:])
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return outer(srv, stream, info, func(srv any, stream grpc.ServerStream) error {
			return inner(srv, stream, info, handler)
		})
	}
}

// UnaryClient is for calls that are made.
func UnaryClient(all []grpc.UnaryClientInterceptor) grpc.UnaryClientInterceptor {
	if len(all) < 2 {
		return first(all)
	}
	outer, inner := all[0], UnaryClient(all[1:])
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		return outer(ctx, method, req, reply, cc, func(ctx context.Context, method string, req, reply any,
			cc *grpc.ClientConn, opts ...grpc.CallOption) error {
			return inner(ctx, method, req, reply, cc, invoker, opts...)
		}, opts...)
	}
}

// StreamClient is for streams that are opened.
func StreamClient(all []grpc.StreamClientInterceptor) grpc.StreamClientInterceptor {
	if len(all) < 2 {
		return first(all)
	}
	outer, inner := all[0], StreamClient(all[1:])
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return outer(ctx, desc, cc, method, func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
			method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return inner(ctx, desc, cc, method, streamer, opts...)
		}, opts...)
	}
}

func first[T any](all []T) (none T) {
	if len(all) == 0 {
		return none
	}
	return all[0]
}
