package link

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// peerOf returns the caller's side of a link, without this package's code.
func peerOf(t *testing.T, s *served) clientStream {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	peer, err := objectspb.NewObjectsClient(conn).Link(patient(t))
	require.NoError(t, err)
	require.NoError(t, peer.Send(hello("")))
	_, err = peer.Header()
	require.NoError(t, err)
	return peer
}

func TestLargePayloadsTravelInPartsBesideSmallOnes(t *testing.T) {
	s, p := local(t, echo), pool(t, Config{})
	ctx := patient(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), (4<<20)/16)
	var wg sync.WaitGroup
	var running atomic.Int64
	running.Store(2)
	for range 2 {
		wg.Go(func() {
			defer running.Add(-1)
			for range 3 {
				reply, err := p.Call(ctx, s.address, to(large))
				if err != nil || !bytes.Equal(large, reply.Response) {
					t.Errorf("a large call: %v", err)
					return
				}
			}
		})
	}
	small := 0
	for running.Load() > 0 {
		_, err := p.Call(ctx, s.address, to([]byte("small")))
		require.NoError(t, err)
		small++
	}
	wg.Wait()
	t.Logf("%d small calls beside 6 of 4 MiB", small)
	require.Greater(t, small, 6, "small calls end while large ones are under way")
}

// A small call that is made after a large one is handled first.
func TestASmallCallOvertakesALargeOne(t *testing.T) {
	p := pool(t, Config{})
	s, l, handled, release, wg := jam(t, p)
	call := func(name string, n int) {
		wg.Go(func() {
			call := to(make([]byte, n))
			call.Key = []byte(name)
			if _, err := p.Call(patient(t), s.address, call); err != nil {
				t.Error(err)
			}
		})
	}
	before := l.buffered()
	call("large", 4<<20)
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.out.large.n == 1
	}, patience, time.Millisecond)
	call("small", 64)
	require.Eventually(t, func() bool { return l.buffered() == before+1 }, patience, time.Millisecond)
	release()
	wg.Wait()
	names := handled()
	require.Equal(t, []string{"small", "large"}, names[len(names)-2:])
}

func TestWhatIsTooLargeFailsAlone(t *testing.T) {
	s := serve(t, "127.0.0.1:0", ServerConfig{MaxMessage: 1 << 20, Handler: handlerFunc(func(c *Incoming) {
		n, _ := strconv.Atoi(string(c.Call.Request))
		c.Reply(&objectspb.Reply{Response: make([]byte, n)})
	})})
	p, narrow := pool(t, Config{MaxMessage: 16 << 20}), pool(t, Config{MaxMessage: 1000})
	for round := range 3 {
		for _, n := range []int{1<<20 + 1, 3 << 20, 16 << 20} {
			reply, err := p.Call(patient(t), s.address, to(make([]byte, n)))
			require.NoError(t, err)
			require.Equal(t, codes.ResourceExhausted, codeOf(t, reply))
		}
		reply, err := p.Call(patient(t), s.address, to([]byte("1048577")))
		require.NoError(t, err)
		require.Equal(t, codes.ResourceExhausted, codeOf(t, reply))
		for _, n := range []string{"1001", "1000000"} {
			_, err = narrow.Call(patient(t), s.address, to([]byte(n)))
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
		}
		for _, p := range []*Pool{p, narrow} {
			reply, err = p.Call(patient(t), s.address, to([]byte("1000")))
			require.NoError(t, err)
			require.Len(t, reply.Response, 1000)
			require.Greater(t, l(p, s).begun, uint64(round), "the same link")
		}
	}
}

// The server stops reading from a peer that does not read its replies. Other peers are not delayed.
func TestASlowReader(t *testing.T) {
	const all, size, bound = 400, 100_000, 1 << 20
	var handled atomic.Int64
	s := serve(t, "127.0.0.1:0", ServerConfig{maxBuffered: bound, Handler: handlerFunc(func(c *Incoming) {
		handled.Add(1)
		c.Reply(&objectspb.Reply{Response: make([]byte, size)})
	})})
	slow := peerOf(t, s)
	for id := range uint64(all) {
		require.NoError(t, slow.Send(request(begun(id, 1, false))))
	}
	s.mu.Lock()
	var link *serverLink
	for l := range s.links {
		link = l
	}
	s.mu.Unlock()
	require.Eventually(t, func() bool {
		link.mu.Lock()
		defer link.mu.Unlock()
		return link.waiting
	}, patience, time.Millisecond)
	link.mu.Lock()
	require.Greater(t, link.out.bytes, int64(bound))
	require.Less(t, link.out.bytes, int64(bound+2*size))
	link.mu.Unlock()
	require.Less(t, handled.Load(), int64(all/2))
	_, err := pool(t, Config{}).Call(patient(t), s.address, to(nil))
	require.NoError(t, err, "another link")
	got := 0
	for got < all {
		m, err := slow.Recv()
		require.NoError(t, err)
		got += len(m.Replies)
	}
}

// Unanswered calls are held only up to a bound.
func TestALinkIsNotReadWhileTooMuchIsHeld(t *testing.T) {
	calls := make(chan *Incoming, 100)
	s := serve(t, "127.0.0.1:0", ServerConfig{maxHeld: 10_000, Handler: handlerFunc(func(c *Incoming) { calls <- c })})
	peer := peerOf(t, s)
	for id := range uint64(20) {
		require.NoError(t, peer.Send(request(begun(id, 1000, false))))
	}
	var held []*Incoming
	for range 7 {
		held = append(held, <-calls)
	}
	require.Never(t, func() bool { return len(calls) > 0 }, 20*time.Millisecond, time.Millisecond)
	for answered := range 20 {
		if len(held) == 0 {
			held = append(held, <-calls)
		}
		held[0].Reply(nil)
		held = held[1:]
		m, err := peer.Recv()
		require.NoError(t, err)
		require.EqualValues(t, answered, m.Replies[0].Id)
	}
}

func TestCallersWaitWhileTooMuchIsInFlight(t *testing.T) {
	calls := make(chan *Incoming, 100)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{maxInFlight: 3000})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	call := func(ctx context.Context, name string, n int, want error) {
		wg.Go(func() {
			call := to(make([]byte, n))
			call.Key = []byte(name)
			if _, err := p.Call(ctx, s.address, call); !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	blocked := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			l := l(p, s)
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.blocked.n == n
		}, patience, time.Millisecond)
	}
	call(t.Context(), "huge", 10_000, nil)
	huge := <-calls
	l(p, s).peer.distance.Store(1) // near, even if the machine was busy while the link was opened
	call(ctx, "cancelled", 700, context.Canceled)
	blocked(1)
	for i, name := range []string{"a", "b", "c"} {
		call(t.Context(), name, 700, nil)
		blocked(i + 2)
	}
	require.Empty(t, calls, "a call that is too long passes alone")
	cancel()
	blocked(3)
	huge.Reply(nil)
	a, b := <-calls, <-calls
	require.Equal(t, "ab", string(a.Call.Key)+string(b.Call.Key), "in order")
	blocked(1)
	b.Reply(nil)
	c := <-calls
	require.Equal(t, "c", string(c.Call.Key))
	a.Reply(nil)
	c.Reply(nil)
	wg.Wait()
	require.Zero(t, l(p, s).inFlight)
}

func TestAPeerThatDoesNotFollowTheProtocolHarmsNobody(t *testing.T) {
	s := local(t, echo)
	p := pool(t, Config{})
	_, err := p.Call(patient(t), s.address, to(nil))
	require.NoError(t, err)
	link := l(p, s)
	for _, m := range []*objectspb.LinkRequest{{}, hello(""), request(part(1, 1, false))} {
		peer := peerOf(t, s)
		require.NoError(t, peer.Send(m))
		_, err := peer.Recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	}
	_, err = p.Call(patient(t), s.address, to(nil))
	require.NoError(t, err)
	require.Same(t, link, l(p, s))
}

func TestAPeerThatHasNoMoreCallsGetsItsReplies(t *testing.T) {
	calls := make(chan *Incoming, 1)
	peer := peerOf(t, local(t, func(c *Incoming) { calls <- c }))
	require.NoError(t, peer.Send(request(begun(1, 1, false))))
	require.NoError(t, peer.CloseSend())
	(<-calls).Reply(nil)
	m, err := peer.Recv()
	require.NoError(t, err)
	require.Len(t, m.Replies, 1)
	_, err = peer.Recv()
	require.ErrorContains(t, err, "EOF")
}
