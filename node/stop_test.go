package node

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// slow is a service whose calls run until they are released or cancelled.
type slow struct {
	healthpb.UnimplementedHealthServer
	entered chan struct{}
	release chan struct{}
	deaf    bool // ignores its context
}

func (s *slow) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.entered <- struct{}{}
	done := ctx.Done()
	if s.deaf {
		done = nil
	}
	select {
	case <-s.release:
		return &healthpb.HealthCheckResponse{}, nil
	case <-done:
		return nil, ctx.Err()
	}
}

// busy returns a serving node with one call of the slow service in flight, and
// where the call's outcome arrives.
func busy(t *testing.T, deaf bool) (*Node, *slow, <-chan error) {
	t.Helper()
	n := local(t)
	s := &slow{entered: make(chan struct{}), release: make(chan struct{}), deaf: deaf}
	desc := healthpb.Health_ServiceDesc
	desc.ServiceName = "test.Slow"
	n.Server().RegisterService(&desc, s)
	require.NoError(t, n.Start())
	conn, outcome := dial(t, n), make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		outcome <- conn.Invoke(patient(t), "/test.Slow/Check", &healthpb.HealthCheckRequest{}, new(healthpb.HealthCheckResponse))
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
	requireFree(t, n.AdvertiseAddress())
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
	require.Less(t, time.Since(began), handlerGrace+5*time.Second)
	require.Error(t, <-outcome)
	close(s.release) // or the leak check would find it
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

func TestSilentConnectionDoesNotDelayStop(t *testing.T) {
	n := started(t)
	raw, err := net.Dial("tcp", n.AdvertiseAddress())
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	// The server's settings frame shows that the connection was accepted.
	_, err = raw.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, n.Stop(patient(t)))
}

func TestHalfAHandshakeDoesNotDelayClose(t *testing.T) {
	n := started(t)
	raw, err := net.Dial("tcp", n.AdvertiseAddress())
	require.NoError(t, err)
	defer func() { _ = raw.Close() }()
	_, err = raw.Write([]byte("PRI * HTTP/2.0\r\n"))
	require.NoError(t, err)
	_, err = raw.Read(make([]byte, 1))
	require.NoError(t, err)
	closed := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = n.Close(); close(closed) })
	select {
	case <-closed:
	case <-patient(t).Done():
		t.Fatal("Close waits for a handshake that never ends")
	}
	wg.Wait()
}

func TestServerOptionsAreUsed(t *testing.T) {
	seen := make(chan string, 1)
	n := local(t, grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		seen <- info.FullMethod
		return next(ctx, req)
	}))
	require.NoError(t, n.Start())
	_, err := Identify(patient(t), n.AdvertiseAddress())
	require.NoError(t, err)
	require.Equal(t, "/goverse.node.v1.Node/Identify", <-seen)
}
