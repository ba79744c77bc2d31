package tracing_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/cluster/objects/tracing"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/probepb"
)

// site has two nodes and traces their calls.
type site struct {
	*clustertest.Cluster
	t        *testing.T
	world    *probepb.World
	spans    *tracetest.SpanRecorder
	provider *sdktrace.TracerProvider
}

func newSite(t *testing.T) *site {
	s := &site{t: t, world: &probepb.World{}, spans: tracetest.NewSpanRecorder()}
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	s.Cluster = clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 16, 20*time.Millisecond, 2
		tracing.Objects(&cfg.Objects, s.provider)
	}))
	for range 2 {
		n := s.NewNode()
		s.world.Register(n.Cluster(), n.Address(), objects.Concurrent("Download"))
		require.NoError(t, n.Start(s.ctx()))
	}
	require.Eventually(t, func() bool { return s.keyAt(0) != "" && s.keyAt(1) != "" }, time.Minute, time.Millisecond)
	return s
}

func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

// keyAt returns the key of an object on a node, "" if there is none.
func (s *site) keyAt(n int) string {
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if owner, _ := s.Node(0).Cluster().Objects().Find(key); owner == s.Node(n).Address() {
			return key
		}
	}
	return ""
}

func (s *site) at(n int, key string) probepb.ProbeClient {
	return probepb.NewProbeClient(s.Node(n).Cluster().Objects().At(key))
}

// chain waits until that many spans have ended. It requires that each is a child of the one before, in one
// trace, and that client and server spans alternate.
func (s *site) chain(parent trace.SpanContext, names ...string) []sdktrace.ReadOnlySpan {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.spans.Ended()) == len(names) }, time.Minute, time.Millisecond)
	within := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, span := range s.spans.Ended() {
		within[span.Parent().SpanID()] = span
	}
	var out []sdktrace.ReadOnlySpan
	for i, name := range names {
		span := within[parent.SpanID()]
		require.NotNil(s.t, span, "no span within %v", parent.SpanID())
		require.Equal(s.t, parent.TraceID(), span.SpanContext().TraceID())
		require.Equal(s.t, "goverse.testkit.probe.Probe/"+name, span.Name())
		kind := trace.SpanKindClient
		if out = append(out, span); i%2 == 1 {
			kind = trace.SpanKindServer
		}
		require.Equal(s.t, kind, span.SpanKind())
		parent = span.SpanContext()
	}
	s.spans.Reset()
	return out
}

// outer begins a trace.
func (s *site) outer() (context.Context, trace.SpanContext) {
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(s.ctx(), "outer")
	return ctx, span.SpanContext()
}

func TestSpansOfCalls(t *testing.T) {
	s := newSite(t)
	s.world.SetAction("call", func(ctx context.Context, p *probepb.Probe, req *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		_, err := probepb.NewProbeClient(p.Object.At(req.GetKey())).Add(ctx, &probepb.AddRequest{})
		return &probepb.DoResponse{}, err
	})
	for _, first := range []int{0, 1} { // on the caller's own node, and on the other one
		ctx, outer := s.outer()
		_, err := s.at(0, s.keyAt(first)).Do(ctx, &probepb.DoRequest{What: "call", Key: s.keyAt(1 - first)})
		require.NoError(t, err)
		for _, span := range s.chain(outer, "Do", "Do", "Add", "Add") {
			require.Contains(t, span.Attributes(), attribute.String("rpc.service", "goverse.testkit.probe.Probe"))
			require.Contains(t, span.Attributes(), attribute.Int64("rpc.grpc.status_code", 0))
			require.Equal(t, otelcodes.Unset, span.Status().Code)
		}
	}

	ctx, outer := s.outer()
	_, err := s.at(0, s.keyAt(1)).Do(ctx, &probepb.DoRequest{What: "nothing"})
	require.Equal(t, codes.NotFound, status.Code(err))
	spans := s.chain(outer, "Do", "Do")
	require.Equal(t, otelcodes.Error, spans[0].Status().Code)
	require.Equal(t, otelcodes.Unset, spans[1].Status().Code, "it is no fault of the object's")

	s.world.SetAction("panic", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		panic("oh")
	})
	ctx, outer = s.outer()
	_, err = s.at(0, s.keyAt(1)).Do(ctx, &probepb.DoRequest{What: "panic"})
	require.Equal(t, codes.Internal, status.Code(err))
	require.Equal(t, otelcodes.Error, s.chain(outer, "Do", "Do")[1].Status().Code)
}

func TestSpansOfStreams(t *testing.T) {
	s := newSite(t)
	for n := range 2 {
		ctx, outer := s.outer()
		down, err := s.at(0, s.keyAt(n)).Download(ctx, &probepb.DownloadRequest{Blobs: 3})
		require.NoError(t, err)
		for err == nil {
			_, err = down.Recv()
		}
		require.ErrorIs(t, err, io.EOF)
		s.chain(outer, "Download", "Download")

		ctx, outer = s.outer()
		up, err := s.at(0, s.keyAt(n)).Upload(ctx)
		require.NoError(t, err)
		require.NoError(t, up.Send(&probepb.Blob{Data: []byte("hello")}))
		_, err = up.CloseAndRecv()
		require.NoError(t, err)
		s.chain(outer, "Upload", "Upload")

		// A caller that goes away.
		ctx, outer = s.outer()
		ctx, cancel := context.WithCancel(ctx)
		down, err = s.at(0, s.keyAt(n)).Download(ctx, &probepb.DownloadRequest{Blobs: 1, Stay: true})
		require.NoError(t, err)
		_, err = down.Recv()
		require.NoError(t, err)
		cancel()
		require.Equal(t, otelcodes.Error, s.chain(outer, "Download", "Download")[0].Status().Code)
	}
}

// A caller from outside passes its own trace in the headers, or uses a traced client.
func TestSpansOfCallsFromOutside(t *testing.T) {
	s := newSite(t)
	ctx, outer := s.outer()
	conn, err := grpc.NewClient(s.Node(0).Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ctx = metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, s.keyAt(1), // so the node forwards it
		"traceparent", "00-"+outer.TraceID().String()+"-"+outer.SpanID().String()+"-01")
	_, err = probepb.NewProbeClient(conn).Add(ctx, &probepb.AddRequest{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(s.spans.Ended()) == 1 }, time.Minute, time.Millisecond)
	span := s.spans.Ended()[0]
	require.Equal(t, trace.SpanKindServer, span.SpanKind())
	require.Equal(t, outer.SpanID(), span.Parent().SpanID())
	s.spans.Reset()

	cfg := client.Config{Addresses: []string{s.Node(0).Address()}}
	tracing.Client(&cfg, s.provider)
	c, err := client.Dial(s.ctx(), cfg)
	require.NoError(t, err)
	defer c.Close()
	ctx, outer = s.outer()
	_, err = probepb.NewProbeClient(c.At(s.keyAt(1))).Add(ctx, &probepb.AddRequest{})
	require.NoError(t, err)
	s.chain(outer, "Add", "Add")
}
