package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// counted counts the messages that a server reads from links.
type counted struct {
	messages, calls atomic.Int64
}

func (c *counted) option() grpc.ServerOption {
	return grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
		handler grpc.StreamHandler) error {
		return handler(srv, &countedStream{ServerStream: stream, counts: c})
	})
}

type countedStream struct {
	grpc.ServerStream
	counts *counted
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if request, ok := m.(*wire.Request); ok && err == nil && request.Message.Hello == nil {
		s.counts.messages.Add(1)
		s.counts.calls.Add(int64(len(request.Message.Calls)))
	}
	return err
}

func TestManyCallersGetTheirOwnReplies(t *testing.T) {
	ctx := patient(t)
	for name, handler := range map[string]handlerFunc{
		"in the reader":    echo,
		"in a goroutine":   func(c *Incoming) { go echo(c) },
		"by one goroutine": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if handler == nil {
				calls := make(chan *Incoming, 10_000)
				t.Cleanup(func() { close(calls) })
				go func() {
					for c := range calls {
						echo(c)
					}
				}()
				handler = func(c *Incoming) { calls <- c }
			}
			s := local(t, handler)
			p := pool(t, Config{})
			var wg sync.WaitGroup
			for caller := range 64 {
				wg.Go(func() {
					call := to(make([]byte, 64))
					for i := range 100 {
						binary.LittleEndian.PutUint64(call.Request, uint64(caller)<<32|uint64(i))
						reply, err := p.Call(ctx, s.address, call)
						if err != nil || !bytes.Equal(reply.Response, call.Request) {
							t.Errorf("caller %d: %v, %v", caller, reply, err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestCallsTravelAsTheyAre(t *testing.T) {
	got := make(chan *objectspb.Call, 1)
	want := &objectspb.Reply{Response: []byte("r"), Status: []byte("s"), Moved: 7,
		Header:  []*objectspb.Header{{Name: "a", Value: []byte{0xff}}},
		Trailer: []*objectspb.Header{{Name: "b", Value: []byte("c")}}}
	s := local(t, func(c *Incoming) {
		got <- proto.Clone(c.Call).(*objectspb.Call)
		c.Reply(proto.Clone(want).(*objectspb.Reply))
		c.Reply(nil)
	})
	p := pool(t, Config{})
	for _, n := range []int{0, 3, partSize, partSize + 1, 3 * partSize} {
		call := to(bytes.Repeat([]byte("x"), n))
		call.Metadata = []*objectspb.Header{{Name: "n", Value: []byte{0, 1}}}
		call.Chain, call.Generation = []uint64{1, 2}, 9
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		reply, err := p.Call(ctx, s.address, call)
		cancel()
		require.NoError(t, err)
		reply.Id = 0
		require.True(t, proto.Equal(want, reply))
		arrived := <-got
		require.Greater(t, arrived.Timeout, int64(30*time.Second))
		require.LessOrEqual(t, arrived.Timeout, int64(time.Minute))
		arrived.Timeout, call.Timeout = 0, 0
		require.True(t, proto.Equal(call, arrived), "%d bytes", n)
	}
	_, err := p.Call(t.Context(), s.address, to(nil))
	require.NoError(t, err)
	require.Zero(t, (<-got).Timeout, "no deadline")
}

func TestALoneCallIsSentAtOnceAndByItself(t *testing.T) {
	var counts counted
	s := local(t, echo, counts.option())
	p := pool(t, Config{})
	for range 100 {
		_, err := p.Call(patient(t), s.address, to(nil))
		require.NoError(t, err)
	}
	require.EqualValues(t, 100, counts.messages.Load())
	require.EqualValues(t, 100, counts.calls.Load())
}

// jam blocks the server's reader in a handler, and fills the link until the writer waits, too. Later calls stay
// in the buffer until release is called. wg is done when the calls that fill the link have ended.
func jam(t *testing.T, p *Pool, opts ...grpc.ServerOption) (s *served, l *link, handled func() []string, release func(),
	wg *sync.WaitGroup) {
	t.Helper()
	ctx := patient(t)
	blocked, free := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var names []string
	s = local(t, func(c *Incoming) {
		mu.Lock()
		names = append(names, string(c.Call.Key))
		mu.Unlock()
		if string(c.Call.Key) == "first" {
			close(blocked)
			<-free
		}
		echo(c)
	}, append(opts, grpc.InitialWindowSize(64<<10), grpc.InitialConnWindowSize(64<<10))...)
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	wg = &sync.WaitGroup{}
	fill := func(name string) {
		wg.Go(func() {
			call := to(make([]byte, 200<<10))
			call.Key = []byte(name)
			_, err := p.Call(ctx, s.address, call)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	fill("first")
	<-blocked
	p.mu.RLock()
	l = p.peers[s.address].links[0].Load()
	p.mu.RUnlock()
	l.peer.distance.Store(1)   // near, even if the machine was busy while the link was opened
	for i := range uint64(2) { // the first fits into gRPC's buffers only in part, so Send of the second blocks
		fill("filling")
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.begun == i+2
		}, patience, time.Millisecond)
	}
	return s, l, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return names
	}, release, wg
}

func (l *link) buffered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.small.n
}

func TestCallsGoTogetherWhileAMessageIsSent(t *testing.T) {
	var counts counted
	p := pool(t, Config{})
	s, l, _, release, wg := jam(t, p, counts.option())
	before := l.buffered()
	for range 100 {
		wg.Go(func() {
			if _, err := p.Call(patient(t), s.address, to(nil)); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return l.buffered() == before+100 }, patience, time.Millisecond)
	release()
	wg.Wait()
	require.EqualValues(t, 103, counts.calls.Load())
	require.LessOrEqual(t, counts.messages.Load(), int64(4), "at most three, and all the rest")
}

func TestBadCallsHarmNobody(t *testing.T) {
	s, p := local(t, echo), pool(t, Config{})
	large := make([]byte, maxExtra)
	for _, c := range []struct {
		call *objectspb.Call
		code codes.Code
	}{
		{&objectspb.Call{}, codes.InvalidArgument},
		{&objectspb.Call{Method: "\xff"}, codes.InvalidArgument},
		{&objectspb.Call{Method: "/a", Metadata: []*objectspb.Header{{Name: "\xff"}}}, codes.InvalidArgument},
		{&objectspb.Call{Method: "/a", Key: large}, codes.ResourceExhausted},
		{&objectspb.Call{Method: "/a", Request: make([]byte, 4<<20+1)}, codes.ResourceExhausted},
	} {
		_, err := p.Call(patient(t), s.address, c.call)
		require.Equal(t, c.code, status.Code(err), "%v", err)
	}
	_, err := p.Call(patient(t), s.address, to(nil))
	require.NoError(t, err)
}

func TestBadRepliesFailTheirCallAlone(t *testing.T) {
	bad := []*objectspb.Reply{
		{Response: make([]byte, 4<<20+1)},
		{Status: make([]byte, maxExtra)},
		{Header: []*objectspb.Header{{Name: "\xff"}}},
		nil,
	}
	s := local(t, func(c *Incoming) { c.Reply(bad[c.Call.Generation]) })
	p := pool(t, Config{})
	for i, code := range []codes.Code{codes.ResourceExhausted, codes.ResourceExhausted, codes.Internal, codes.OK} {
		call := to(nil)
		call.Generation = int64(i)
		reply, err := p.Call(patient(t), s.address, call)
		require.NoError(t, err)
		require.Equal(t, code, codeOf(t, reply))
	}
}
