package tracing

import (
	"context"
	"errors"
	"io"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

// serverStream is a stream with a context that holds the span.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// clientStream ends its span as soon as its caller can know the outcome of the call.
type clientStream struct {
	grpc.ClientStream
	manyMessages bool // the node may send several messages
	end          func(error)
	release      func() bool
}

func newClientStream(ctx context.Context, stream grpc.ClientStream, desc *grpc.StreamDesc,
	span trace.Span) *clientStream {
	s := &clientStream{ClientStream: stream, manyMessages: desc.ServerStreams}
	var once sync.Once
	s.end = func(err error) { once.Do(func() { endSpan(span, trace.SpanKindClient, err) }) }
	// A caller that has received all it needs ends its context and receives no more.
	s.release = context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	return s
}

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF):
		s.finishSpan(nil)
	case err != nil:
		s.finishSpan(err)
	case !s.manyMessages:
		s.finishSpan(nil)
	}
	return err
}

func (s *clientStream) finishSpan(err error) {
	s.release()
	s.end(err)
}
