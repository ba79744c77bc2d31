package peer

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/peer/budget"
)

const (
	// streamWindow and connWindow limit the bytes of a stream, and of a connection, that were sent but not
	// read. With fixed windows, gRPC need not measure the connection with a ping beside nearly every message,
	// which costs a tenth of a small call. The window of a stream is small, because each stream of a connection
	// may be left unread; gRPC extends it to the whole of a longer message when that is read. The window of a
	// connection reopens as soon as bytes arrive.
	streamWindow = 256 << 10
	connWindow   = 16 << 20
	// maxConcurrentReads limits the unary requests, of up to 4 MiB each, that are received from one connection at a
	// time. Further ones wait until one has arrived completely, because its size is only known then. Up to a
	// window of each waiting request may have arrived already, so requests beyond maxUnread are refused while
	// few are received.
	maxConcurrentReads, maxUnread = 6, 96
	// maxOwnStreams limits the streams of the node's own services on one connection: watches of the node, of its
	// health and of the routes, reflection, and links.
	maxOwnStreams = 32
)

// connLimits restricts the concurrent requests and streams of one connection.
type connLimits struct{ reading, own *budget.Gate }

func newConnLimits() connLimits {
	return connLimits{reading: budget.NewGate(maxConcurrentReads, maxUnread), own: budget.NewGate(maxOwnStreams, 0)}
}

// limitService returns the service with unary calls that are received within the limits.
func (l connLimits) limitService(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	out := *desc
	out.Methods = slices.Clone(desc.Methods)
	for i := range out.Methods {
		handler := out.Methods[i].Handler
		out.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error,
			around grpc.UnaryServerInterceptor) (any, error) {
			return handler(srv, ctx, func(request any) error { return l.decodeLimited(ctx, decode, request) }, around)
		}
	}
	return &out
}

func (l connLimits) decodeLimited(ctx context.Context, decode func(any) error, request any) error {
	connection := budget.ConnectionOf(ctx)
	switch err := l.reading.Enter(ctx, connection); {
	case errors.Is(err, budget.ErrCrowded):
		return budget.ErrUnreceived
	case err != nil:
		return status.FromContextError(err).Err()
	}
	defer l.reading.Leave(connection)
	return decode(request)
}

// limitOwn is an interceptor that refuses a connection more than maxOwnStreams streams of the node's own services.
func (l connLimits) limitOwn(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	if !slices.ContainsFunc(ownServices, func(prefix string) bool { return strings.HasPrefix(info.FullMethod, prefix) }) {
		return handler(srv, stream)
	}
	connection := budget.ConnectionOf(stream.Context())
	if !l.own.TryEnter(connection) {
		return status.Errorf(codes.ResourceExhausted, "node: this connection has %d streams of the node's own services "+
			"already: end some, or open another connection", maxOwnStreams)
	}
	defer l.own.Leave(connection)
	return handler(srv, stream)
}

// ownServices lists the services of which a connection needs only few streams.
var ownServices = []string{"/grpc.health.v1.Health/", "/grpc.reflection.", "/goverse.node.v1.Node/",
	"/goverse.objects.v1.Objects/"}

// limitedRegistrar registers services with the limits applied.
type limitedRegistrar struct {
	grpc.ServiceRegistrar
	limits connLimits
}

// RegisterService implements grpc.ServiceRegistrar.
func (r limitedRegistrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	r.ServiceRegistrar.RegisterService(r.limits.limitService(desc), impl)
}
