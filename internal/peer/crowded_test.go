package peer

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/test/pace"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// ending returns the status with which a call on a stream ended, or OK if a message came.
func ending(stream grpc.ClientStream, m any) codes.Code { return status.Code(stream.RecvMsg(m)) }

func TestStreamsOfTheNodesOwnServices(t *testing.T) {
	t.Parallel()
	n := started(t)
	one, another := dial(t, n), dial(t, n)
	watch := func(conn *grpc.ClientConn) (codes.Code, context.CancelFunc) {
		ctx, cancel := context.WithCancel(patient(t))
		stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
		return ending(stream, &healthpb.HealthCheckResponse{}), cancel
	}
	var cancel context.CancelFunc
	for range maxOwnStreams {
		var code codes.Code
		code, cancel = watch(one)
		require.Equal(t, codes.OK, code)
	}
	code, _ := watch(one)
	require.Equal(t, codes.ResourceExhausted, code)
	code, _ = watch(another)
	require.Equal(t, codes.OK, code, "other connections have their own")
	cancel()
	require.Eventually(t, func() bool {
		code, _ := watch(one)
		return code == codes.OK
	}, 20*time.Second, time.Millisecond, "one has ended")
}

// ownService returns a service with one method, like Identify.
func ownService(name string) *grpc.ServiceDesc {
	handle := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return &nodepb.IdentifyResponse{}, decode(&nodepb.IdentifyRequest{})
	}
	return &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: handle}}}
}

// If many requests of one connection are not received completely, the connection is refused further ones. Other
// connections are not affected. That holds for all services of a node.
func TestRequestsThatAreNotReceived(t *testing.T) {
	t.Parallel()
	n := local(t)
	n.Server().RegisterService(ownService("test.User"), nil)
	require.NoError(t, n.Register(ownService("test.Cluster"), nil))
	require.NoError(t, n.Start())
	for _, method := range []string{nodepb.Node_Identify_FullMethodName, "/test.User/Call", "/test.Cluster/Call"} {
		refuseUnreceived(t, n, method)
	}
}

func refuseUnreceived(t *testing.T, n *Node, method string) {
	one, another := dial(t, n), dial(t, n)
	ctx, cancel := context.WithCancel(patient(t))
	refused := make(chan error, 1)
	var wg sync.WaitGroup
	for range maxConcurrentReads + maxUnread + 1 {
		stream, err := one.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
		require.NoError(t, err)
		wg.Go(func() { // nothing is sent
			if err := stream.RecvMsg(&nodepb.IdentifyResponse{}); ctx.Err() == nil {
				refused <- err
			}
		})
	}
	select {
	case err := <-refused:
		require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	case <-ctx.Done():
		require.Fail(t, "none is refused", method)
	}
	call := func(conn *grpc.ClientConn) error {
		return conn.Invoke(patient(t), method, &nodepb.IdentifyRequest{}, &nodepb.IdentifyResponse{})
	}
	require.NoError(t, call(another), "other connections have their own")
	cancel()
	wg.Wait()
	require.Empty(t, refused, "the others wait")
	require.Eventually(t, func() bool { return call(one) == nil }, 20*time.Second, time.Millisecond, "they have ended")
}

// Thousands of concurrent small calls are not refused. Only on a machine too busy to receive them quickly, some may be:
// then the test tries again, with fewer.
func TestManySmallCallsAtOnce(t *testing.T) {
	t.Parallel()
	client, meter := nodepb.NewNodeClient(dial(t, started(t))), pace.StartMeter(t)
	refused := func(calls int) bool {
		ctx, began := patient(t), time.Now()
		meter.StartLap()
		var refusals atomic.Int64
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				_, err := client.Identify(ctx, &nodepb.IdentifyRequest{})
				switch status.Code(err) {
				case codes.OK:
				case codes.ResourceExhausted:
					refusals.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		took, slowdown := time.Since(began), meter.Slowdown()
		t.Logf("%d of %d calls were refused; they took %v on a machine slower by a factor of %.1f", refusals.Load(), calls,
			took, slowdown)
		if refusals.Load() == 0 {
			return false
		}
		require.True(t, took > time.Second || slowdown > 2, "refused although they are received quickly")
		return true
	}
	calls := 4000
	for attempts := 1; refused(calls); attempts++ {
		require.Less(t, attempts, 20)
		calls = max(calls/2, 2*(maxConcurrentReads+maxUnread))
	}
}
