package peer

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// Server returns the registrar for the user's own gRPC services. It panics where gRPC would end the process.
func (n *Node) Server() grpc.ServiceRegistrar { return registrar{node: n} }

// registrar guards grpc's registration, which calls os.Exit on misuse.
type registrar struct{ node *Node }

// RegisterService registers a service of the user.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	n := r.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started || n.stopped {
		panic(fmt.Sprintf("node: service %s registered after Start: register services between NewNode and Start",
			desc.ServiceName))
	}
	if _, ok := n.server.GetServiceInfo()[desc.ServiceName]; ok {
		panic(fmt.Sprintf("node: service %s is already registered: register each service once", desc.ServiceName))
	}
	n.server.RegisterService(n.limits.limitService(desc), impl)
}

// Register registers a service like Server, but returns ErrStarted or ErrStopped if it is too late.
func (n *Node) Register(desc *grpc.ServiceDesc, impl any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.stopped:
		return errStopped()
	case n.started:
		return errStarted()
	}
	if _, ok := n.server.GetServiceInfo()[desc.ServiceName]; ok {
		return errStarted() // another cluster is about to start the node
	}
	n.server.RegisterService(n.limits.limitService(desc), impl)
	return nil
}

// identityService implements the service goverse.node.v1.Node.
type identityService struct {
	nodepb.UnimplementedNodeServer
	node *Node
}

// Identify answers from memory, so it answers correctly even if everything else is stuck.
func (i identityService) Identify(context.Context, *nodepb.IdentifyRequest) (*nodepb.IdentifyResponse, error) {
	resp := &nodepb.IdentifyResponse{InstanceId: i.node.instanceID, AdvertiseAddress: i.node.advertise}
	select {
	case <-i.node.stopping:
		resp.Stopping = true
	default:
	}
	return resp, nil
}

// endWatches ends health watches when the node stops. They last as long as the client wants, so a graceful stop
// would otherwise always take all of its time.
func (n *Node) endWatches(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	if !strings.HasPrefix(info.FullMethod, "/grpc.health.v1.Health/") {
		return handler(srv, stream)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		select {
		case <-n.endStreams:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-joined
	}()
	return handler(srv, endingStream{ServerStream: stream, ctx: ctx})
}

// endingStream is a stream with a context that also ends when the node stops.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context that ends when the node stops.
func (s endingStream) Context() context.Context { return s.ctx }
