package link

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unary is a plain gRPC service that answers with the request.
var unary = grpc.ServiceDesc{ServiceName: "test.Unary", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
	MethodName: "Echo",
	Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := &wrapperspb.BytesValue{}
		return in, decode(in)
	},
}}}

// BenchmarkUnary is the reference for BenchmarkLink: as many callers make one gRPC call after the other on one
// connection.
func BenchmarkUnary(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			server, ended := grpc.NewServer(), make(chan error, 1)
			server.RegisterService(&unary, nil)
			go func() { ended <- server.Serve(listener) }()
			conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(b, err)
			payload := make([]byte, 64)
			measure(b, callers, func(ctx context.Context) error {
				return conn.Invoke(ctx, "/test.Unary/Echo", &wrapperspb.BytesValue{Value: payload}, &wrapperspb.BytesValue{})
			})
			_ = conn.Close()
			server.Stop()
			require.NoError(b, <-ended)
		})
	}
}

func BenchmarkLink(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s, p := local(b, echo), NewPool(Config{})
			payload := make([]byte, 64)
			measure(b, callers, func(ctx context.Context) error {
				_, err := p.Call(ctx, s.address, to(payload))
				return err
			})
			p.Close()
			s.kill()
		})
	}
}

// BenchmarkLinkAsync handles each call in a goroutine of its own.
func BenchmarkLinkAsync(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s, p := local(b, func(c *Incoming) { go echo(c) }), NewPool(Config{})
			payload := make([]byte, 64)
			measure(b, callers, func(ctx context.Context) error {
				_, err := p.Call(ctx, s.address, to(payload))
				return err
			})
			p.Close()
			s.kill()
		})
	}
}

// measure runs that many goroutines, each of which makes one call after the other.
func measure(b *testing.B, callers int, call func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	require.NoError(b, call(ctx))
	var next, failures atomic.Int64
	var wg sync.WaitGroup
	all := make([][]time.Duration, callers)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				begun := time.Now()
				if call(ctx) != nil {
					failures.Add(1)
				}
				all[i] = append(all[i], time.Since(begun))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	require.Zero(b, failures.Load())
	times := slices.Concat(all...)
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
}
