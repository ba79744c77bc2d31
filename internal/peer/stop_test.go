package peer

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/porttest"
	"github.com/goverse/goverse/internal/wait"
)

// slow is a service with calls that run until they are released or cancelled.
type slow struct {
	healthpb.UnimplementedHealthServer
	entered chan struct{}
	release chan struct{}
	ignores bool // ignores its context
}

func (s *slow) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.entered <- struct{}{}
	done := ctx.Done()
	if s.ignores {
		done = nil
	}
	select {
	case <-s.release:
		return &healthpb.HealthCheckResponse{}, nil
	case <-done:
		return nil, ctx.Err()
	}
}

// busy returns a serving node with one running call of the slow service, and a channel for the call's outcome.
func busy(t *testing.T, ignores bool) (*Node, *slow, <-chan error) {
	t.Helper()
	n := local(t)
	s := &slow{entered: make(chan struct{}), release: make(chan struct{}), ignores: ignores}
	desc := healthpb.Health_ServiceDesc
	desc.ServiceName = "test.Slow"
	n.Server().RegisterService(&desc, s)
	require.NoError(t, n.Start())
	conn, outcome := dial(t, n), make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		outcome <- conn.Invoke(patient(t), "/test.Slow/Check", &healthpb.HealthCheckRequest{},
			new(healthpb.HealthCheckResponse))
	})
	t.Cleanup(wg.Wait)
	<-s.entered
	return n, s, outcome
}

func TestStopLetsCallsFinish(t *testing.T) {
	n, s, outcome := busy(t, false)
	stopped := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { stopped <- n.Stop(patient(t)) })
	<-n.Stopping()
	<-n.Done() // the port is free while the call still runs
	porttest.RequireFree(t, n.AdvertiseAddress())
	select {
	case err := <-stopped:
		t.Fatalf("Stop returned with a call in flight: %v", err)
	case err := <-outcome:
		t.Fatalf("the call was cut off: %v", err)
	default:
	}
	close(s.release)
	require.NoError(t, <-outcome)
	require.NoError(t, <-stopped)
	wg.Wait()
}

func TestStopIsBoundedByItsContext(t *testing.T) {
	n, _, outcome := busy(t, false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := n.Stop(ctx)
	require.ErrorIs(t, err, ErrCallsCut)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "\n")
	require.Error(t, <-outcome)
	require.NoError(t, n.Stop(ctx), "all is down already")
}

func TestCloseHurriesAStop(t *testing.T) {
	n, _, outcome := busy(t, false)
	var wg sync.WaitGroup
	wg.Go(func() { _ = n.Stop(context.Background()) })
	<-n.Stopping()
	require.NoError(t, n.Close())
	wg.Wait()
	require.Error(t, <-outcome)
}

func TestACallThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	n, s, outcome := busy(t, true)
	began := time.Now()
	require.NoError(t, n.Close())
	require.Less(t, time.Since(began), wait.JoinLimit+5*time.Second)
	require.Error(t, <-outcome)
	close(s.release) // otherwise the leak check would find it
	<-n.drained
}

func TestHealthWatchDoesNotDelayStop(t *testing.T) {
	n := started(t)
	stream, err := healthpb.NewHealthClient(dial(t, n)).Watch(patient(t), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	require.NoError(t, n.Stop(context.Background()), "a watch never ends by itself")
	for err == nil {
		_, err = stream.Recv()
	}
	require.Contains(t, []codes.Code{codes.Canceled, codes.Unavailable}, status.Code(err))
}

// hearing is a listener that counts the bytes read from its connections.
type hearing struct {
	net.Listener
	read  atomic.Int64
	waits atomic.Bool // a read for more is blocked
}

func (l *hearing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return heardConn{c, l}, err
}

type heardConn struct {
	net.Conn
	l *hearing
}

func (c heardConn) Read(b []byte) (int, error) {
	c.l.waits.Store(true)
	n, err := c.Conn.Read(b)
	c.l.waits.Store(false)
	c.l.read.Add(int64(n))
	return n, err
}

// A stop closes connections with an unfinished handshake. Grpc would wait two minutes for each.
func TestHalfAHandshakeDoesNotDelayStop(t *testing.T) {
	certs := httptest.NewUnstartedServer(http.NotFoundHandler())
	certs.StartTLS()
	pair := certs.TLS.Certificates[0]
	certs.Close()
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc" // the beginning of a ClientHello
	for name, handshake := range map[string]struct {
		opts []grpc.ServerOption
		says string
	}{
		"nothing":           {},
		"half a preface":    {says: "PRI * HTTP/2.0\r\n"},
		"no settings":       {says: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		"half a settings":   {says: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04"},
		"nothing over TLS":  {opts: []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&pair))}},
		"half a TLS record": {opts: []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&pair))}, says: hello},
	} {
		for _, end := range []string{"Stop", "Close"} {
			t.Run(name+"/"+end, func(t *testing.T) {
				n := local(t, handshake.opts...)
				heard := &hearing{Listener: n.listener.Listener}
				n.listener.Listener = heard
				require.NoError(t, n.Start())
				raw, err := net.Dial("tcp", n.AdvertiseAddress())
				require.NoError(t, err)
				defer func() { _ = raw.Close() }()
				_, err = io.WriteString(raw, handshake.says)
				require.NoError(t, err)
				require.Eventually(t, func() bool { return heard.read.Load() == int64(len(handshake.says)) && heard.waits.Load() },
					10*time.Second, time.Millisecond, "the server has read that, and waits for more")
				meter := pace.StartMeter(t)
				began := time.Now()
				if end == "Stop" {
					require.NoError(t, n.Stop(patient(t)))
				} else {
					require.NoError(t, n.Close())
				}
				require.Less(t, time.Since(began), meter.Scale(2*time.Second))
			})
		}
	}
}

func TestServerOptionsAreUsed(t *testing.T) {
	seen := make(chan string, 1)
	n := local(t, grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		next grpc.UnaryHandler) (any, error) {
		seen <- info.FullMethod
		return next(ctx, req)
	}))
	require.NoError(t, n.Start())
	_, err := Identify(patient(t), n.AdvertiseAddress())
	require.NoError(t, err)
	require.Equal(t, "/goverse.node.v1.Node/Identify", <-seen)
}
