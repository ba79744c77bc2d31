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
type Option func(*tracing)

// Propagator makes traces travel in the metadata as p encodes them. The default is W3C's trace context and
// baggage.
func Propagator(p propagation.TextMapPropagator) Option {
	return func(t *tracing) { t.propagator = p }
}

// Objects traces the calls that a node makes and the calls of its objects. provider makes the spans and must
// not be nil. The configuration must not be in use yet.
func Objects(cfg *cluster.ObjectsConfig, provider trace.TracerProvider, options ...Option) {
	t := newTracing(provider, options)
	cfg.UnaryInterceptors = append(cfg.UnaryInterceptors, t.unaryServer)
	cfg.StreamInterceptors = append(cfg.StreamInterceptors, t.streamServer)
	cfg.UnaryClientInterceptors = append(cfg.UnaryClientInterceptors, t.unaryClient)
	cfg.StreamClientInterceptors = append(cfg.StreamClientInterceptors, t.streamClient)
}

// Client traces the calls of a program that is not a node. Otherwise it is like [Objects].
func Client(cfg *client.Config, provider trace.TracerProvider, options ...Option) {
	t := newTracing(provider, options)
	cfg.UnaryInterceptors = append(cfg.UnaryInterceptors, t.unaryClient)
	cfg.StreamInterceptors = append(cfg.StreamInterceptors, t.streamClient)
}

// tracing makes the spans of one process.
type tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

func newTracing(provider trace.TracerProvider, options []Option) *tracing {
	t := &tracing{tracer: provider.Tracer("github.com/goverse/goverse/cluster/objects"),
		propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})}
	for _, option := range options {
		option(t)
	}
	return t
}

// begin begins the span of a call. fullMethod is "/package.Service/Method".
func (t *tracing) begin(ctx context.Context, fullMethod string, kind trace.SpanKind) (context.Context, trace.Span) {
	name := strings.TrimPrefix(fullMethod, "/")
	service, method, _ := strings.Cut(name, "/")
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service),
		attribute.String("rpc.method", method)))
}

// serving begins the span of a call that this process serves, as a child of the span in the call's metadata.
func (t *tracing) serving(ctx context.Context, method string) (context.Context, trace.Span) {
	md, _ := metadata.FromIncomingContext(ctx)
	return t.begin(t.propagator.Extract(ctx, carrier(md)), method, trace.SpanKindServer)
}

// calling begins the span of a call that this process makes, and writes the span to the call's metadata.
func (t *tracing) calling(ctx context.Context, method string) (context.Context, trace.Span) {
	ctx, span := t.begin(ctx, method, trace.SpanKindClient)
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	t.propagator.Inject(ctx, carrier(md))
	return metadata.NewOutgoingContext(ctx, md), span
}

// end ends the span of a call with the call's error.
func end(span trace.Span, kind trace.SpanKind, err error) {
	s := status.Convert(err)
	span.SetAttributes(attribute.Int64("rpc.grpc.status_code", int64(s.Code())))
	if s.Code() != codes.OK && (kind == trace.SpanKindClient || fault(s.Code())) {
		span.SetStatus(otelcodes.Error, s.Message())
	}
	span.End()
}

// fault reports whether a code is a fault of the server, not of its caller.
func fault(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

func (t *tracing) unaryServer(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	ctx, span := t.serving(ctx, info.FullMethod)
	err := errPanicked
	defer func() { end(span, trace.SpanKindServer, err) }()
	var response any
	response, err = handler(ctx, request)
	return response, err
}

func (t *tracing) streamServer(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	ctx, span := t.serving(stream.Context(), info.FullMethod)
	err := errPanicked
	defer func() { end(span, trace.SpanKindServer, err) }()
	err = handler(server, &servedStream{stream, ctx})
	return err
}

// errPanicked is the error recorded for a method that did not return.
var errPanicked = status.Error(codes.Internal, "the method did not return")

func (t *tracing) unaryClient(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	ctx, span := t.calling(ctx, method)
	err := invoke(ctx, method, request, reply, conn, options...)
	end(span, trace.SpanKindClient, err)
	return err
}

func (t *tracing) streamClient(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, span := t.calling(ctx, method)
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		end(span, trace.SpanKindClient, err)
		return nil, err
	}
	return newCalledStream(ctx, stream, desc, span), nil
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
