package tracing

import (
	"context"
	"errors"
	"io"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

// servedStream is a stream with a context that holds the span.
type servedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *servedStream) Context() context.Context { return s.ctx }

// calledStream ends its span as soon as its caller can know the outcome of the call.
type calledStream struct {
	grpc.ClientStream
	many    bool // the node may send several messages
	end     func(error)
	release func() bool
}

func newCalledStream(ctx context.Context, stream grpc.ClientStream, desc *grpc.StreamDesc,
	span trace.Span) *calledStream {
	s := &calledStream{ClientStream: stream, many: desc.ServerStreams}
	var once sync.Once
	s.end = func(err error) { once.Do(func() { end(span, trace.SpanKindClient, err) }) }
	// A caller that has received all it needs ends its context and receives no more.
	s.release = context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	return s
}

// RecvMsg implements grpc.ClientStream.
func (s *calledStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF):
		s.ended(nil)
	case err != nil:
		s.ended(err)
	case !s.many:
		s.ended(nil)
	}
	return err
}

func (s *calledStream) ended(err error) {
	s.release()
	s.end(err)
}
