package objects_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/probepb"
)

// outside returns a plain gRPC connection to a node.
func outside(t *testing.T, n *clustertest.Node) *grpc.ClientConn {
	conn, err := grpc.NewClient(n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// ownedBy returns the key of an object on that node.
func ownedBy(t *testing.T, n *clustertest.Node, like string) string {
	t.Helper()
	require.Eventually(t, func() bool { return n.Cluster().Status().Shards.Serving > 0 }, time.Minute,
		time.Millisecond)
	for i := range 10000 {
		key := fmt.Sprint(like, i)
		if owner, ok := n.Cluster().Shards().Owner(key); ok && owner.Address == n.Address() {
			return key
		}
	}
	t.Fatalf("%s owns nothing", n.Address())
	return ""
}

// ways returns the ways to an object on node 1: from there, from another node, and from outside through each.
func ways(t *testing.T, c *clustertest.Cluster) map[string]func(key string) grpc.ClientConnInterface {
	all := map[string]func(key string) grpc.ClientConnInterface{
		"local":  c.Node(1).Cluster().Objects().At,
		"remote": c.Node(0).Cluster().Objects().At,
	}
	for name, i := range map[string]int{"outside, owner": 1, "outside, forwarded": 0} {
		conn := outside(t, c.Node(i))
		all[name] = func(key string) grpc.ClientConnInterface { return keyed{conn, key} }
	}
	return all
}

// keyed is a connection that sends a key.
type keyed struct {
	*grpc.ClientConn
	key string
}

func (k keyed) with(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, objects.BinaryKeyHeader, k.key)
}

func (k keyed) Invoke(ctx context.Context, method string, request, response any, opts ...grpc.CallOption) error {
	return k.ClientConn.Invoke(k.with(ctx), method, request, response, opts...)
}

func (k keyed) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return k.ClientConn.NewStream(k.with(ctx), desc, method, opts...)
}

func TestBadCalls(t *testing.T) {
	c, w := objectNodes(t, 2, objects.MaxQueue(1))
	key := ownedBy(t, c.Node(1), "key")
	w.OnActivate = func(_ context.Context, o *objects.Object) error {
		if strings.HasPrefix(o.Key(), "broken") {
			return status.Error(codes.DataLoss, "the record cannot be read")
		}
		return nil
	}
	w.SetAction("panic", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		panic("oh")
	})
	broken := ownedBy(t, c.Node(1), "broken")
	for way, at := range ways(t, c) {
		t.Run(way, func(t *testing.T) {
			client := probepb.NewProbeClient(at(key))
			alive := func() {
				_, err := client.Echo(patient(t), &probepb.Blob{Data: []byte("x")})
				require.NoError(t, err)
			}
			requireCode := func(code codes.Code, notStarted bool, err error) {
				t.Helper()
				require.Equal(t, code, status.Code(err), "%v", err)
				require.NotContains(t, err.Error(), "\n")
				require.Equal(t, notStarted, objects.NotStarted(err), "%v", err)
				alive()
			}
			alive()
			for _, method := range []string{"/goverse.testkit.probe.Probe/None", "/none.Service/Add", "nonsense", "/", ""} {
				err := at(key).Invoke(patient(t), method, &probepb.Blob{}, &probepb.Blob{})
				require.Contains(t, []codes.Code{codes.Unimplemented, codes.Internal}, status.Code(err), "%q: %v", method, err)
				alive()
			}
			_, err := probepb.NewProbeClient(at("")).Echo(patient(t), &probepb.Blob{})
			requireCode(codes.InvalidArgument, true, err)
			_, err = probepb.NewProbeClient(at(strings.Repeat("k", objects.MaxKey+1))).Echo(patient(t), &probepb.Blob{})
			requireCode(codes.InvalidArgument, true, err)
			_, err = probepb.NewProbeClient(at(broken)).Echo(patient(t), &probepb.Blob{})
			requireCode(codes.DataLoss, true, err)
			_, err = client.Do(patient(t), &probepb.DoRequest{What: "panic"})
			requireCode(codes.Internal, false, err)
			_, err = client.Do(patient(t), &probepb.DoRequest{What: "nothing"})
			requireCode(codes.NotFound, false, err)
			_, err = client.Echo(patient(t), &probepb.Blob{Data: make([]byte, 16<<20)})
			require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
			alive()

			// A stream that is never read, with more bytes than fit into any window.
			ctx, cancel := context.WithCancel(patient(t))
			stream, err := client.Download(ctx, &probepb.DownloadRequest{Blobs: 1000, Bytes: 1 << 20})
			require.NoError(t, err)
			cancel()
			_, err = stream.Recv()
			for err == nil {
				_, err = stream.Recv()
			}
			requireCode(codes.Canceled, false, err)
		})
	}
}

// Calls come without a key, with two keys, and with keys of any bytes.
func TestKeysInHeaders(t *testing.T) {
	c, _ := objectNodes(t, 2)
	client := probepb.NewProbeClient(outside(t, c.Node(0)))
	for _, headers := range [][]string{{}, {objects.KeyHeader, "a", objects.KeyHeader, "b"}, {objects.KeyHeader, ""},
		{objects.KeyHeader, "a", objects.BinaryKeyHeader, "a"}, {objects.BinaryKeyHeader, strings.Repeat("a", 1025)},
		{objects.KeyHeader, "a", "goverse-forwarded", "1", "goverse-generation", "x"},
		{objects.KeyHeader, "a", "goverse-forwarded", "1", "goverse-chain-bin", "short"},
		{objects.KeyHeader, "a", "goverse-forwarded", "1", "goverse-chain-bin", strings.Repeat("a", 8*65)}} {
		ctx := metadata.AppendToOutgoingContext(patient(t), headers...)
		_, err := client.Echo(ctx, &probepb.Blob{})
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v: %v", headers, err)
		stream, err := client.Chat(ctx)
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v: %v", headers, err)
	}
	for _, key := range []string{"\x00", "\xff\xfe", "a/b", " ", strings.Repeat("\n", objects.MaxKey)} {
		reply, err := client.Add(metadata.AppendToOutgoingContext(patient(t), objects.BinaryKeyHeader, key),
			&probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
		require.EqualValues(t, 1, reply.GetSum())
		reply, err = probepb.NewProbeClient(c.Node(1).Cluster().Objects().At(key)).Add(patient(t),
			&probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
		require.EqualValues(t, 2, reply.GetSum(), "the same object")
	}
}

func TestMetadataStatusAndDeadlinesTravel(t *testing.T) {
	c, w := objectNodes(t, 2)
	key := ownedBy(t, c.Node(1), "key")
	w.SetAction("headers", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if err := grpc.SetHeader(ctx, metadata.Pairs("said", md.Get("say")[0])); err != nil {
			return nil, err
		}
		if err := grpc.SetTrailer(ctx, metadata.Pairs("said-bin", md.Get("say-bin")[0])); err != nil {
			return nil, err
		}
		if method, ok := grpc.Method(ctx); !ok || method != probepb.Probe_Do_FullMethodName {
			return nil, status.Error(codes.Internal, "the method is not known")
		}
		if ctx.Value(ownKey{}) != nil {
			return nil, status.Error(codes.Internal, "values of the caller's context travel")
		}
		return &probepb.DoResponse{}, nil
	})
	w.SetAction("status", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		s, err := status.New(codes.Aborted, "as it is").WithDetails(&probepb.Blob{Data: []byte("detail")})
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	})
	w.SetAction("deadline", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		deadline, ok := ctx.Deadline()
		if !ok || time.Until(deadline) > time.Hour {
			return nil, status.Error(codes.Internal, "the deadline is not known")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	cancelled := make(chan error, 10)
	begun := make(chan bool, 10)
	w.SetAction("cancelled", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		begun <- true
		<-ctx.Done()
		cancelled <- ctx.Err()
		return nil, ctx.Err()
	})
	for way, at := range ways(t, c) {
		t.Run(way, func(t *testing.T) {
			client := probepb.NewProbeClient(at(key))
			do := func(ctx context.Context, what string, opts ...grpc.CallOption) error {
				_, err := client.Do(ctx, &probepb.DoRequest{What: what}, opts...)
				return err
			}
			var header, trailer metadata.MD
			ctx := context.WithValue(metadata.AppendToOutgoingContext(patient(t), "say", "hello", "say-bin", "\x00\xff"),
				ownKey{}, true)
			require.NoError(t, do(ctx, "headers", grpc.Header(&header), grpc.Trailer(&trailer)))
			require.Equal(t, []string{"hello"}, header.Get("said"))
			require.Equal(t, []string{"\x00\xff"}, trailer.Get("said-bin"))

			err := do(patient(t), "status")
			require.Equal(t, codes.Aborted, status.Code(err))
			require.Equal(t, "as it is", status.Convert(err).Message())
			require.Len(t, status.Convert(err).Details(), 1)
			require.Equal(t, "detail", string(status.Convert(err).Details()[0].(*probepb.Blob).GetData()))

			brief, cancel := context.WithTimeout(patient(t), 30*time.Millisecond)
			defer cancel()
			require.Equal(t, codes.DeadlineExceeded, status.Code(do(brief, "deadline")))

			ctx, cancel = context.WithCancel(patient(t))
			go func() {
				<-begun
				cancel()
			}()
			require.Equal(t, codes.Canceled, status.Code(do(ctx, "cancelled")))
			require.ErrorIs(t, <-cancelled, context.Canceled)
		})
	}
}

type ownKey struct{}

// A node refuses a call with too many headers, and continues.
func TestHeadersAreBounded(t *testing.T) {
	c, _ := objectNodes(t, 1)
	client := probepb.NewProbeClient(outside(t, c.Node(0)))
	ctx := metadata.AppendToOutgoingContext(patient(t), objects.KeyHeader, "k")
	_, err := client.Add(ctx, &probepb.AddRequest{}) // the client has read the node's settings
	require.NoError(t, err)
	_, err = client.Add(metadata.AppendToOutgoingContext(ctx, "much", strings.Repeat("x", 65<<10)), &probepb.AddRequest{})
	require.Error(t, err)
	_, err = client.Add(metadata.AppendToOutgoingContext(ctx, "some", strings.Repeat("x", 60<<10)), &probepb.AddRequest{})
	require.NoError(t, err)
}
