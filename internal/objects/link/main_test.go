package link

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the waits of a test that hangs.
const patience = time.Minute

// patient returns a context that ends only if a test hangs.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// handlerFunc is a Handler of one function.
type handlerFunc func(c *Incoming)

func (f handlerFunc) Serve(c *Incoming) { f(c) }

// echo answers at once with the request.
func echo(c *Incoming) { c.Reply(&objectspb.Reply{Response: c.Call.Request}) }

// service is the gRPC service of a Server.
type service struct {
	objectspb.UnimplementedObjectsServer
	*Server
}

func (s service) Link(stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]) error {
	return s.Server.Link(stream)
}

// WatchRoutes serves a stream without messages.
func (service) WatchRoutes(_ *objectspb.WatchRoutesRequest,
	stream grpc.ServerStreamingServer[objectspb.WatchRoutesResponse]) error {
	<-stream.Context().Done()
	return nil
}

// served is a gRPC server with a Server.
type served struct {
	*Server
	grpc    *grpc.Server
	address string
	ended   chan error
}

// serve starts a server at the address, and stops it with the test.
func serve(t testing.TB, address string, cfg ServerConfig, opts ...grpc.ServerOption) *served {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	s := &served{Server: NewServer(cfg), grpc: grpc.NewServer(opts...), address: listener.Addr().String(),
		ended: make(chan error, 1)}
	objectspb.RegisterObjectsServer(s.grpc, service{Server: s.Server})
	go func() { s.ended <- s.grpc.Serve(listener) }()
	t.Cleanup(s.kill)
	return s
}

// kill closes the listener and all connections. It may be called again.
func (s *served) kill() {
	s.grpc.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Close(ctx)
	if err, ok := <-s.ended; ok {
		close(s.ended)
		_ = err
	}
}

// local starts a server at a free port.
func local(t testing.TB, h handlerFunc, opts ...grpc.ServerOption) *served {
	t.Helper()
	return serve(t, "127.0.0.1:0", ServerConfig{Handler: h}, opts...)
}

// pool returns a pool that is closed with the test.
func pool(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p := NewPool(cfg)
	t.Cleanup(p.Close)
	return p
}

// Call is CallBy without a deadline of its own.
func (p *Pool) Call(ctx context.Context, address string, call *objectspb.Call) (*objectspb.Reply, error) {
	return p.CallBy(ctx, time.Time{}, address, call)
}

// to returns a call with a request.
func to(request []byte) *objectspb.Call {
	return &objectspb.Call{Method: "/test.Service/Echo", Key: []byte("key"), Request: request}
}
