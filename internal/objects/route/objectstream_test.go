package route

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/test/probepb"
)

var (
	bidiStream   = &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	uploadStream = &grpc.StreamDesc{ClientStreams: true}

	errMoved = hosted.Error(codes.Unavailable, objects.ReasonNotStarted, "the shard is elsewhere")
)

// streamNode is a node to which all streams go. It implements Map; each wait for a change of the map finds one, or
// fails with err.
type streamNode struct {
	address    string // "" if no node owns the shard
	generation atomic.Int64
	err        error
	opened     atomic.Int64 // the number of streams
}

func (*streamNode) Shard(string) (int, bool)    { return 0, true }
func (*streamNode) Former(int) string           { return "" }
func (n *streamNode) Owner(int) (string, int64) { return n.address, n.generation.Load() }
func (n *streamNode) AwaitChange(ctx context.Context, _ int, _ SeenOwner) error {
	if n.address == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	n.generation.Add(1)
	return n.err
}

// serveStreams starts a node that handles streams, which are numbered from 1.
func serveStreams(t *testing.T, handle func(number int64, stream grpc.ServerStream) error) *streamNode {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &streamNode{address: listener.Addr().String()}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		return handle(n.opened.Add(1), stream)
	}))
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		served.Wait()
	})
	return n
}

// routerTo returns a router of a process that is not a node.
func routerTo(t *testing.T, n *streamNode, opts ...grpc.DialOption) *Router {
	pool := link.NewPool(link.Config{DialOptions: opts})
	t.Cleanup(pool.Close)
	r, err := New(Config{Map: n, Pool: pool, CallTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// echoOnce sends the first message back.
func echoOnce(stream grpc.ServerStream) error {
	var b probepb.Blob
	if err := stream.RecvMsg(&b); err != nil {
		return err
	}
	return stream.SendMsg(&b)
}

// enteringStream signals that Header or RecvMsg is called.
type enteringStream struct {
	grpc.ClientStream
	entered chan struct{}
}

func (s enteringStream) Header() (metadata.MD, error) {
	s.entered <- struct{}{}
	return s.ClientStream.Header()
}

func (s enteringStream) RecvMsg(m any) error {
	s.entered <- struct{}{}
	return s.ClientStream.RecvMsg(m)
}

// One goroutine may wait for the header, and another for a message. Both learn that the stream was not started. It is
// opened again once, so the call does not run twice.
func TestStreamIsReopenedOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		entered := make(chan struct{}, 100)
		n := serveStreams(t, func(number int64, stream grpc.ServerStream) error {
			if number == 1 {
				for range 2 {
					select {
					case <-entered:
					case <-stream.Context().Done():
						return nil
					}
				}
				return errMoved
			}
			if err := echoOnce(stream); err != nil {
				return err
			}
			<-stream.Context().Done()
			return nil
		})
		r := routerTo(t, n, grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
			conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, conn, method, opts...)
			return enteringStream{stream, entered}, err
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		stream, err := r.NewStream(ctx, "a", bidiStream, "/test.Service/Stream")
		require.NoError(t, err)
		require.NoError(t, stream.SendMsg(&probepb.Blob{Data: []byte("hello")}))
		header := make(chan error, 1)
		go func() {
			_, err := stream.Header()
			header <- err
		}()
		var got probepb.Blob
		require.NoError(t, stream.RecvMsg(&got))
		require.Equal(t, "hello", string(got.GetData()))
		require.NoError(t, <-header)
		require.EqualValues(t, 2, n.opened.Load(), "streams opened")
		cancel()
	}
}

// A caller that was told that the stream was not started may make the call elsewhere. Nothing starts it afterwards.
func TestEndedStreamIsNotReopened(t *testing.T) {
	t.Parallel()
	n := serveStreams(t, func(int64, grpc.ServerStream) error { return errMoved })
	n.err = errors.New("no map comes")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := routerTo(t, n).NewStream(ctx, "a", bidiStream, "/test.Service/Stream")
	require.NoError(t, err)
	ended := stream.RecvMsg(&probepb.Blob{})
	require.True(t, objects.NotStarted(ended), ended)
	n.err = nil
	require.EqualError(t, stream.RecvMsg(&probepb.Blob{}), ended.Error())
	_, err = stream.Header()
	require.EqualError(t, err, ended.Error())
	require.EqualValues(t, 1, n.opened.Load(), "streams opened")
}

// The option for the end of a call has its effect once, however many streams to nodes the call took.
func TestStreamFinishesOnce(t *testing.T) {
	t.Parallel()
	moveThenEcho := func(number int64, stream grpc.ServerStream) error {
		if number < 3 {
			return errMoved
		}
		return echoOnce(stream)
	}
	never := func(_ int64, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return nil
	}
	for name, c := range map[string]struct {
		handle  func(number int64, stream grpc.ServerStream) error
		desc    *grpc.StreamDesc
		unowned bool
		use     func(t *testing.T, stream grpc.ClientStream, cancel func())
		code    codes.Code
	}{
		"received to the end": {handle: moveThenEcho, desc: bidiStream,
			use: func(t *testing.T, stream grpc.ClientStream, _ func()) {
				require.NoError(t, stream.SendMsg(&probepb.Blob{}))
				require.NoError(t, stream.RecvMsg(&probepb.Blob{}))
				for range 2 {
					require.ErrorIs(t, stream.RecvMsg(&probepb.Blob{}), io.EOF)
				}
			}},
		"one response": {handle: moveThenEcho, desc: uploadStream,
			use: func(t *testing.T, stream grpc.ClientStream, _ func()) {
				require.NoError(t, stream.SendMsg(&probepb.Blob{}))
				require.NoError(t, stream.CloseSend())
				require.NoError(t, stream.RecvMsg(&probepb.Blob{}))
			}},
		"failed": {desc: bidiStream, code: codes.DataLoss,
			handle: func(int64, grpc.ServerStream) error { return status.Error(codes.DataLoss, "test") },
			use: func(t *testing.T, stream grpc.ClientStream, _ func()) {
				_, err := stream.Header()
				require.Equal(t, codes.DataLoss, status.Code(err))
				require.Equal(t, codes.DataLoss, status.Code(stream.RecvMsg(&probepb.Blob{})))
			}},
		"a message too large": {handle: never, desc: bidiStream, code: codes.ResourceExhausted,
			use: func(t *testing.T, stream grpc.ClientStream, _ func()) {
				require.Equal(t, codes.ResourceExhausted, status.Code(stream.SendMsg(&probepb.Blob{Data: make([]byte, 100)})))
			}},
		"cancelled": {handle: never, desc: bidiStream, code: codes.Canceled,
			use: func(_ *testing.T, _ grpc.ClientStream, cancel func()) { cancel() }},
		"not opened": {unowned: true, desc: bidiStream, code: codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, patience := &streamNode{}, 100*time.Millisecond
			if !c.unowned {
				n, patience = serveStreams(t, c.handle), 20*time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			finished := make(chan error, 10)
			stream, err := routerTo(t, n).NewStream(ctx, "a", c.desc, "/test.Service/Stream",
				grpc.OnFinish(func(err error) { finished <- err }), grpc.MaxCallSendMsgSize(50))
			require.Equal(t, c.unowned, err != nil, err)
			if err == nil {
				c.use(t, stream, cancel)
			}
			select {
			case err = <-finished:
			case <-time.After(20 * time.Second):
				t.Fatal("the call does not finish")
			}
			require.Equal(t, c.code, status.Code(err), err)
			cancel()
			require.Never(t, func() bool { return len(finished) > 0 }, 20*time.Millisecond, time.Millisecond)
		})
	}
}
