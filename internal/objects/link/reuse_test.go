package link

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// scratch is a Scratch that counts the calls that have ended.
type scratch struct {
	calls, freed int
	inUse        bool
}

func (s *scratch) Freed() { s.freed, s.inUse = s.freed+1, false }

// The calls of a link are reused, each after its reply was sent, while its handler may still set OnCancel.
func TestCallsAreUsedAgain(t *testing.T) {
	var mu sync.Mutex
	seen := map[*scratch]bool{}
	var replying sync.WaitGroup
	s := local(t, func(c *Incoming) {
		own, ok := c.Scratch.(*scratch)
		if !ok {
			own = &scratch{}
			c.Scratch = own
		}
		mu.Lock()
		seen[own] = true
		mu.Unlock()
		if own.inUse {
			t.Error("two calls have the same scratch")
		}
		own.inUse, own.calls = true, own.calls+1
		reply := &objectspb.Reply{Response: append([]byte(nil), c.Call.Request...)}
		replying.Go(func() { c.Reply(reply) })
		c.OnCancel(func() { t.Error("nobody has cancelled it") })
	})
	p := pool(t, Config{})
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for i := range 500 {
				request := []byte{byte(caller), byte(i), byte(i >> 8)}
				reply, err := p.Call(patient(t), s.address, to(request))
				if err != nil || string(reply.Response) != string(request) {
					t.Errorf("%v, %v for %v", reply.GetResponse(), err, request)
					return
				}
			}
		})
	}
	wg.Wait()
	replying.Wait()
	p.Close()
	s.kill()
	calls, freed := 0, 0
	for own := range seen {
		calls, freed = calls+own.calls, freed+own.freed
	}
	require.Equal(t, 16*500, calls)
	require.Greater(t, freed, calls-64, "all but those of the last messages")
	require.Less(t, len(seen), 200)
}

// The calls kept for reuse are limited, however many were in flight at a time, and hold no references.
func TestWhatIsKeptIsBounded(t *testing.T) {
	in := newInboundCalls("p", 100)
	_, err := in.receiveMessage(hello("p"))
	require.NoError(t, err)
	m := request()
	for id := range uint64(3 * maxSpare) {
		m.Calls = append(m.Calls, begun(id+1, 10, false))
	}
	a, err := in.receiveMessage(m)
	require.NoError(t, err)
	for _, c := range a.calls {
		c.Scratch, c.answered = &scratch{}, true
		c.entry = entry{id: c.id, reply: &objectspb.Reply{Response: make([]byte, 10)}}
		in.freeCall(c)
		require.True(t, c.answered, "until it is used again")
		require.Nil(t, c.Call)
		require.Equal(t, entry{}, c.entry)
	}
	require.Len(t, in.spare, maxSpare)
	require.Nil(t, a.calls[len(a.calls)-1].Scratch)
	require.NotNil(t, in.spare[0].Scratch)
}

// Small waiting calls do not hold the space of the large ones before them, because they are counted by their
// length.
func TestWaitingCallsHoldWhatTheyAreCountedAs(t *testing.T) {
	var mu sync.Mutex
	var held []*Incoming
	s := local(t, func(c *Incoming) {
		if len(c.Call.Request) > 100 {
			c.Reply(nil)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		held = append(held, c)
	})
	p := pool(t, Config{})
	const rounds, at = 30, 8
	var large, small sync.WaitGroup
	for range rounds {
		for range at {
			large.Go(func() { _, _ = p.Call(patient(t), s.address, to(make([]byte, 50<<10))) })
		}
		large.Wait()
		for range at {
			small.Go(func() { _, _ = p.Call(patient(t), s.address, to([]byte("x"))) })
		}
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(held) == rounds*at
	}, patience, time.Millisecond)
	for _, c := range held {
		require.LessOrEqual(t, cap(c.Call.Request), 2<<10)
		c.Reply(nil)
	}
	small.Wait()
}

// guesser answers calls before it has read them.
type guesser struct {
	objectspb.UnimplementedObjectsServer
}

func (guesser) Link(stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	var last atomic.Uint64
	go func() { // ends with the stream
		for m, err := stream.Recv(); err == nil; m, err = stream.Recv() {
			for _, c := range m.Calls {
				last.Store(max(last.Load(), c.Id))
			}
		}
	}()
	for stream.Context().Err() == nil {
		m, at := &objectspb.LinkResponse{}, last.Load()
		at -= min(at, 32) // several calls may have come since the last message, and no caller waits in vain
		for i := range uint64(96) {
			m.Replies = append(m.Replies, &objectspb.Reply{Id: at + i})
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// A call is no longer read when it returns, even if the peer answered it before it was sent. The link of such a
// peer ends.
func TestReplyToWhatIsBeingEncoded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, ended := grpc.NewServer(), make(chan error, 1)
	objectspb.RegisterObjectsServer(server, guesser{})
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	p := pool(t, Config{})
	near, err := p.peer(listener.Addr().String())
	require.NoError(t, err)
	near.distance.Store(1) // on a busy machine, too: at the end of each further link, one more guesses all the time
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				c := to(make([]byte, 100<<10))
				if _, err := p.Call(patient(t), listener.Addr().String(), c); err != nil && status.Code(err) == codes.Internal {
					t.Error(err)
				}
				for i := range c.Request { // the race detector finds a reader
					c.Request[i] = 'y'
				}
			}
		})
	}
	wg.Wait()
}
