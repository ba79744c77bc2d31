// Package interceptor combines several gRPC interceptors into one. The first is the outermost, as in gRPC
// itself. For an empty list each function returns nil.
//
// Not promised: any property of gRPC's own chains except the order.
package interceptor

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryServer combines interceptors for unary calls that are served.
func UnaryServer(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(all) < 2 {
		return firstOrNone(all)
	}
	outer, inner := all[0], UnaryServer(all[1:])
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, handler)
		})
	}
}

// StreamServer combines interceptors for streams that are served.
func StreamServer(all []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if len(all) < 2 {
		return firstOrNone(all)
	}
	outer, inner := all[0], StreamServer(all[1:])
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return outer(srv, stream, info, func(srv any, stream grpc.ServerStream) error {
			return inner(srv, stream, info, handler)
		})
	}
}

// UnaryClient combines interceptors for unary calls that are made.
func UnaryClient(all []grpc.UnaryClientInterceptor) grpc.UnaryClientInterceptor {
	if len(all) < 2 {
		return firstOrNone(all)
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

// StreamClient combines interceptors for streams that are opened.
func StreamClient(all []grpc.StreamClientInterceptor) grpc.StreamClientInterceptor {
	if len(all) < 2 {
		return firstOrNone(all)
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

func firstOrNone[T any](all []T) (none T) {
	if len(all) == 0 {
		return none
	}
	return all[0]
}
