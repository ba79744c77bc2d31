package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects/client"
)

// Option is an option of [Objects] and [Client].
type Option func(*spanTracer)

// Propagator makes traces travel in the metadata as p encodes them. The default is W3C's trace context and
// baggage.
func Propagator(p propagation.TextMapPropagator) Option {
	return func(t *spanTracer) { t.propagator = p }
}

// Objects traces the calls that a node makes and the calls of its objects. provider makes the spans and must
// not be nil. The configuration must not be in use yet.
func Objects(cfg *cluster.ObjectsConfig, provider trace.TracerProvider, options ...Option) {
	t := newSpanTracer(provider, options)
	cfg.UnaryInterceptors = append(cfg.UnaryInterceptors, t.unaryServer)
	cfg.StreamInterceptors = append(cfg.StreamInterceptors, t.streamServer)
	cfg.UnaryClientInterceptors = append(cfg.UnaryClientInterceptors, t.unaryClient)
	cfg.StreamClientInterceptors = append(cfg.StreamClientInterceptors, t.streamClient)
}

// Client traces the calls of a program that is not a node. Otherwise it is like [Objects].
func Client(cfg *client.Config, provider trace.TracerProvider, options ...Option) {
	t := newSpanTracer(provider, options)
	cfg.UnaryInterceptors = append(cfg.UnaryInterceptors, t.unaryClient)
	cfg.StreamInterceptors = append(cfg.StreamInterceptors, t.streamClient)
}

// spanTracer makes the spans of one process.
type spanTracer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

func newSpanTracer(provider trace.TracerProvider, options []Option) *spanTracer {
	t := &spanTracer{tracer: provider.Tracer("github.com/goverse/goverse/cluster/objects"),
		propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})}
	for _, option := range options {
		option(t)
	}
	return t
}

// beginSpan begins the span of a call. fullMethod is "/package.Service/Method".
func (t *spanTracer) beginSpan(ctx context.Context, fullMethod string, kind trace.SpanKind) (context.Context,
	trace.Span) {
	name := strings.TrimPrefix(fullMethod, "/")
	service, method, _ := strings.Cut(name, "/")
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service),
		attribute.String("rpc.method", method)))
}

// beginServerSpan begins the span of a call that this process serves, as a child of the span in the call's metadata.
func (t *spanTracer) beginServerSpan(ctx context.Context, method string) (context.Context, trace.Span) {
	md, _ := metadata.FromIncomingContext(ctx)
	return t.beginSpan(t.propagator.Extract(ctx, carrier(md)), method, trace.SpanKindServer)
}

// beginClientSpan begins the span of a call that this process makes, and writes the span to the call's metadata.
func (t *spanTracer) beginClientSpan(ctx context.Context, method string) (context.Context, trace.Span) {
	ctx, span := t.beginSpan(ctx, method, trace.SpanKindClient)
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	t.propagator.Inject(ctx, carrier(md))
	return metadata.NewOutgoingContext(ctx, md), span
}

// endSpan ends the span of a call with the call's error.
func endSpan(span trace.Span, kind trace.SpanKind, err error) {
	s := status.Convert(err)
	span.SetAttributes(attribute.Int64("rpc.grpc.status_code", int64(s.Code())))
	if s.Code() != codes.OK && (kind == trace.SpanKindClient || serverFault(s.Code())) {
		span.SetStatus(otelcodes.Error, s.Message())
	}
	span.End()
}

// serverFault reports whether a code is a fault of the server, not of its caller.
func serverFault(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

func (t *spanTracer) unaryServer(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	ctx, span := t.beginServerSpan(ctx, info.FullMethod)
	err := errPanicked
	defer func() { endSpan(span, trace.SpanKindServer, err) }()
	var response any
	response, err = handler(ctx, request)
	return response, err
}

func (t *spanTracer) streamServer(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	ctx, span := t.beginServerSpan(stream.Context(), info.FullMethod)
	err := errPanicked
	defer func() { endSpan(span, trace.SpanKindServer, err) }()
	err = handler(server, &serverStream{stream, ctx})
	return err
}

// errPanicked is the error recorded for a method that did not return.
var errPanicked = status.Error(codes.Internal, "the method did not return")

func (t *spanTracer) unaryClient(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, span := t.beginClientSpan(ctx, method)
	err := invoke(ctx, method, request, reply, conn, options...)
	endSpan(span, trace.SpanKindClient, err)
	return err
}

func (t *spanTracer) streamClient(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, span := t.beginClientSpan(ctx, method)
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		endSpan(span, trace.SpanKindClient, err)
		return nil, err
	}
	return newClientStream(ctx, stream, desc, span), nil
}

// carrier lets OpenTelemetry read and write gRPC metadata.
type carrier metadata.MD

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	return strings.Join(metadata.MD(c).Get(key), ",") // as HTTP joins the values of a header
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
