package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// Server returns where users register their own gRPC services, before Start.
// Registering after Start or Stop, or a service that is already there (health,
// reflection and goverse.node.v1.Node always are), is a mistake in the program and
// panics, as http.Handle does; grpc itself would end the process.
func (n *Node) Server() grpc.ServiceRegistrar { return registrar{node: n} }

// registrar guards grpc's own registration, which calls os.Exit on misuse.
type registrar struct{ node *Node }

// RegisterService registers a service of the user's.
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
	n.server.RegisterService(desc, impl)
}

// Register registers a service of the program's own, as Server does, and reports ErrStarted or ErrStopped
// where it is too late.
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
		return errStarted() // another cluster is about to start it
	}
	n.server.RegisterService(desc, impl)
	return nil
}

// identity answers who this node is.
type identity struct {
	nodepb.UnimplementedNodeServer
	node *Node
}

// Identify answers from memory, so it is right also while all else is stuck.
func (i identity) Identify(context.Context, *nodepb.IdentifyRequest) (*nodepb.IdentifyResponse, error) {
	resp := &nodepb.IdentifyResponse{InstanceId: i.node.instanceID, AdvertiseAddress: i.node.advertise}
	select {
	case <-i.node.stopping:
		resp.Stopping = true
	default:
	}
	return resp, nil
}

// Watch tells a watcher who this is, and stays until one of both ends.
func (i identity) Watch(stream grpc.BidiStreamingServer[nodepb.WatchRequest, nodepb.WatchResponse]) error {
	n := i.node
	// A goroutine that hears the watcher. It ends when the stream does, which the return
	// from here sees to.
	first, gone := make(chan *nodepb.WatchRequest, 1), make(chan error, 1)
	watching := false // read after gone
	n.watchers.Go(func() {
		req, err := stream.Recv()
		if err == nil {
			first <- req
			_, err = stream.Recv()
		}
		if err == nil {
			watching = true
			n.watchedBy.Add(1)
			_, err = stream.Recv()
			n.watchedBy.Add(-1)
		}
		gone <- err
	})
	var watcher string
	select {
	case req := <-first:
		watcher = req.GetInstanceId()
	case err := <-gone:
		return err
	case <-n.endStreams:
		return status.Error(codes.Unavailable, "the node is stopping")
	}
	if err := stream.Send(&nodepb.WatchResponse{InstanceId: n.instanceID}); err != nil {
		return err
	}
	select {
	case err := <-gone:
		if watching && !errors.Is(err, io.EOF) { // it did not say goodbye
			n.log.Debug("lost a watcher", "instance", watcher)
			n.lostWatcher()
		}
		return nil
	case <-n.endStreams:
	}
	select {
	case <-n.goodbye:
		if p, ok := peer.FromContext(stream.Context()); ok {
			n.listener.leaving(p.Addr)
		}
		return stream.Send(&nodepb.WatchResponse{Goodbye: true})
	default:
		return status.Error(codes.Unavailable, "the node was closed")
	}
}

// Watchers is how many watch this node now.
func (n *Node) Watchers() int { return int(n.watchedBy.Load()) }

func (n *Node) lostWatcher() {
	select {
	case n.watcherLost <- struct{}{}:
	default:
	}
}

// WatcherLost receives after a watcher's stream has ended without a goodbye: the
// watcher died, or cannot reach this node any more and may take it for dead. Several
// losses can make one signal.
func (n *Node) WatcherLost() <-chan struct{} { return n.watcherLost }

// endWatches ends health watches when the node stops. They run for as long as the
// client wants, so a graceful stop would otherwise always take its whole time.
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

// endingStream is a stream with a context that also ends with the node.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context that ends with the node.
func (s endingStream) Context() context.Context { return s.ctx }
