package peer

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/goverse/goverse/internal/test/porttest"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// greeter implements a generated service of a user.
type greeter struct {
	healthpb.UnimplementedHealthServer
}

func (greeter) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return &healthpb.HealthCheckResponse{Status: 42}, nil
}

func TestUsersRegisterServicesBeforeStart(t *testing.T) {
	n := local(t)
	desc := healthpb.Health_ServiceDesc
	desc.ServiceName = "test.Greeter" // the health service under another name
	n.Server().RegisterService(&desc, greeter{})
	require.PanicsWithValue(t, "node: service test.Greeter is already registered: register each service once",
		func() { n.Server().RegisterService(&desc, greeter{}) })
	require.Panics(t, func() { nodepb.RegisterNodeServer(n.Server(), identityService{node: n}) })
	require.NoError(t, n.Start())

	out := new(healthpb.HealthCheckResponse)
	require.NoError(t, dial(t, n).Invoke(patient(t), "/test.Greeter/Check", &healthpb.HealthCheckRequest{}, out))
	require.EqualValues(t, 42, out.GetStatus())

	desc.ServiceName = "test.Late"
	require.Panics(t, func() { n.Server().RegisterService(&desc, greeter{}) })
}

func TestHealthFollowsReady(t *testing.T) {
	n := started(t)
	client := healthpb.NewHealthClient(dial(t, n))
	status := func() healthpb.HealthCheckResponse_ServingStatus {
		resp, err := client.Check(patient(t), &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
		return resp.GetStatus()
	}
	require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, status())
	n.SetReady(true)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, status())
	n.SetReady(false)
	require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, status())
	n.SetReady(true)
	n.MarkStopping()
	require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, status())
	n.SetReady(true)
	require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, status(), "a stopping node is never ready again")
}

func TestReflectionListsServices(t *testing.T) {
	n := started(t)
	ctx, cancel := context.WithCancel(patient(t))
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(dial(t, n)).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}))
	resp, err := stream.Recv()
	require.NoError(t, err)
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	require.Subset(t, names, []string{"goverse.node.v1.Node", "grpc.health.v1.Health"})
}

func TestInstanceIDs(t *testing.T) {
	a, b := local(t), local(t)
	require.Regexp(t, "^[0-9a-f]{32}$", a.InstanceID())
	require.NotEqual(t, a.InstanceID(), b.InstanceID())
}

func TestStartOnce(t *testing.T) {
	n := started(t)
	require.ErrorIs(t, n.Start(), ErrStarted)
	require.NoError(t, n.Stop(patient(t)))
	require.ErrorIs(t, n.Start(), ErrStopped)
	require.NoError(t, n.Err())
}

func TestCloseFreesThePortOfANodeNeverStarted(t *testing.T) {
	n := local(t)
	require.NoError(t, n.Close())
	porttest.RequireFree(t, n.AdvertiseAddress())
	require.ErrorIs(t, n.Start(), ErrStopped)
	require.NoError(t, n.Close())
	require.NoError(t, n.Stop(patient(t)))
	<-n.Done()
}

func TestABrokenListenerIsReported(t *testing.T) {
	n := started(t)
	require.NoError(t, n.listener.Close())
	<-n.Done()
	require.ErrorIs(t, n.Err(), net.ErrClosed)
	require.NoError(t, n.Stop(patient(t)))
}

func TestEverythingAtOnce(t *testing.T) {
	n := local(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _ = n.Start() })
		wg.Go(func() { n.SetReady(true) })
		wg.Go(func() { _, _ = Identify(patient(t), n.AdvertiseAddress()) })
		wg.Go(func() { require.NoError(t, n.Stop(patient(t))) })
		wg.Go(func() { require.NoError(t, n.Close()) })
	}
	wg.Wait()
	porttest.RequireFree(t, n.AdvertiseAddress())
}
