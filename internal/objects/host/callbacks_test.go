package host

import (
	"context"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/goverse/goverse/cluster/objects"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/probepb"
)

// fragile is a service in which each callback can break once.
type fragile struct {
	probepb.UnimplementedProbeServer
	breaks *breaks
}

// breaks names the callback that breaks and the way it does, and counts the breaks.
type breaks struct {
	in    string
	how   func()
	times atomic.Int64
}

func (b *breaks) at(callback string) {
	if callback == b.in && b.times.Add(1) == 1 {
		b.how()
	}
}

func (f *fragile) Activated(context.Context) error {
	f.breaks.at("Activated")
	return nil
}

func (f *fragile) Deactivated(context.Context, objects.Reason) { f.breaks.at("Deactivated") }

func (f *fragile) Add(context.Context, *probepb.AddRequest) (*probepb.AddResponse, error) {
	f.breaks.at("a unary method")
	return &probepb.AddResponse{}, nil
}

func (f *fragile) Download(_ *probepb.DownloadRequest, stream grpc.ServerStreamingServer[probepb.Blob]) error {
	f.breaks.at("a streaming method")
	return stream.Send(&probepb.Blob{})
}

// quiet is a stream that discards all messages.
type quiet struct {
	grpc.ServerStream
	ctx context.Context
}

func (q *quiet) Context() context.Context { return q.ctx }
func (q *quiet) RecvMsg(any) error        { return nil }
func (q *quiet) SendMsg(any) error        { return nil }

// brokenRequest is a request that breaks when it is decoded.
type brokenRequest struct {
	probepb.AddRequest
	b *breaks
}

func (r *brokenRequest) ProtoReflect() protoreflect.Message {
	r.b.at("decoding a request")
	return r.AddRequest.ProtoReflect()
}

// takerFunc is called with each response.
type takerFunc func()

func (f takerFunc) Take(any) error {
	f()
	return nil
}

// Each user callback panics, or leaves its goroutine as t.FailNow does. Its call ends with an error, all other
// calls continue, and the shard can be handed over.
func TestCallbacksThatBreak(t *testing.T) {
	for _, callback := range []string{"the factory", "Activated", "Deactivated", "a tick of Every", "a tick of After",
		"a unary method", "a streaming method", "the unary interceptor", "the stream interceptor", "decoding a request",
		"encoding a response"} {
		for how, breaks := range map[string]func(){"by a panic": func() { panic("oh") },
			"by runtime.Goexit": runtime.Goexit} {
			t.Run(callback+" "+how, func(t *testing.T) { breaksIn(t, &breaksOf{callback, breaks}) })
		}
	}
}

type breaksOf struct {
	in  string
	how func()
}

func breaksIn(t *testing.T, of *breaksOf) {
	b := &breaks{in: of.in, how: of.how}
	var r registrar
	objects.Register(&r, probepb.RegisterProbeServer, func(_ context.Context, o *objects.Object) (probepb.ProbeServer,
		error) {
		b.at("the factory")
		o.Every(time.Millisecond, func(context.Context) { b.at("a tick of Every") })
		o.After(time.Millisecond, func(context.Context) { b.at("a tick of After") })
		return &fragile{breaks: b}, nil
	})
	shards := newHeld(16, true)
	h := New(limited(Config{Shards: shards,
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			b.at("the unary interceptor")
			return next(ctx, req)
		},
		Stream: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			b.at("the stream interceptor")
			return next(srv, stream)
		}}), NewServices(r.all))
	t.Cleanup(h.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n := cshard.Of("a", 16)
	add := func() error {
		ended := make(chan error, 1)
		h.ServeCall(&Call{Method: h.services.Method(probepb.Probe_Add_FullMethodName), Key: "a", Shard: n,
			Request:  &brokenRequest{b: b},
			Response: takerFunc(func() { b.at("encoding a response") })}, func(err error) { ended <- err })
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return io.ErrUnexpectedEOF
		}
	}
	download := func() error {
		return h.ServeStream(&Call{Method: h.services.Method(probepb.Probe_Download_FullMethodName), Key: "a", Shard: n},
			&quiet{ctx: ctx})
	}
	for _, call := range []func() error{add, download} {
		if err := call(); err != nil {
			require.Contains(t, []codes.Code{codes.Internal, codes.Unavailable}, status.Code(err), err)
		}
	}
	drop := func() {
		shards.release(ctx, h, n, cshard.ErrNotOwner) // it must return
		require.Zero(t, h.RunningTurns())
		require.Zero(t, h.evictor.activations.Load())
		shards.acquire(n)
	}
	if of.in == "Deactivated" {
		drop()
	}
	require.Eventually(t, func() bool { return b.times.Load() > 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return add() == nil && download() == nil }, time.Minute, time.Millisecond,
		"all others go on")
	drop()
	require.NoError(t, add())
	require.NoError(t, ctx.Err())
}
