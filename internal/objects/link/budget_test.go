package link

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/internal/peer/budget"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// serverLinks returns the present links of a server.
func (s *served) serverLinks() (all []*serverLink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.links {
		all = append(all, l)
	}
	return all
}

// Idle links leave the budget to other links.
func TestIdleLinksHoldLittle(t *testing.T) {
	const links = 160
	b := budget.New(32 << 20)
	s := serve(t, "127.0.0.1:0", ServerConfig{Budget: b, Handler: handlerFunc(echo)})
	for range links {
		_, err := pool(t, Config{}).Call(patient(t), s.address, to([]byte("small")))
		require.NoError(t, err)
	}
	t.Logf("%d idle links hold %d KiB", links, b.Usage().Used>>10)
	reply, err := pool(t, Config{}).Call(patient(t), s.address, to(make([]byte, 4<<20)))
	require.NoError(t, err)
	require.Empty(t, string(reply.Status), "nothing else waits")
	for range 2 { // ticks
		for _, l := range s.serverLinks() {
			l.expirePartials()
		}
	}
	require.Zero(t, b.Usage().Used)
}

// A connection does not read the answers to its calls, which are answered at once. The waiting answers stay
// within the connection's share of the budget, whatever its number of links. When it reads them, all arrive. Each
// link alone has more answers than the share, so that each waits, whichever is served first.
func TestUnreadRepliesAreBounded(t *testing.T) {
	const links, messages, calls = 4, 10, 5_000
	b := budget.New(32 << 20)
	refusal := strings.Repeat("no such method ", 40)
	s := serve(t, "127.0.0.1:0", ServerConfig{Budget: b, Handler: handlerFunc(func(c *Incoming) {
		c.Reply(statusReply(codes.Unimplemented, refusal))
	})})
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // a busy machine takes a while to handle all calls
	t.Cleanup(cancel)
	var wg sync.WaitGroup
	var peers []clientStream
	for range links {
		peer, err := objectspb.NewObjectsClient(conn).Link(ctx)
		require.NoError(t, err)
		peers = append(peers, peer)
		wg.Go(func() {
			err := peer.Send(hello(""))
			for i := 0; i < messages && err == nil; i++ {
				m := request()
				for j := range calls {
					m.Calls = append(m.Calls, begun(uint64(i*calls+j), 0, false))
				}
				err = peer.Send(m)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool {
		waiting := 0
		for _, l := range s.serverLinks() {
			l.mu.Lock()
			if l.waiting {
				waiting++
			}
			l.mu.Unlock()
		}
		return waiting == links
	}, patience, time.Millisecond, "all of them are read no further")
	used := b.Usage().Used
	t.Logf("%d MiB of replies wait", used>>20)
	require.Less(t, used, int64(40<<20), "a half, and one message of each link")
	for _, peer := range peers {
		wg.Go(func() {
			for got := 0; got < messages*calls; {
				m, err := peer.Recv()
				if err != nil {
					t.Error(err)
					return
				}
				got += len(m.Replies)
			}
		})
	}
	wg.Wait()
	require.Zero(t, s.heldBytes())
}

// heldBytes returns the bytes that calls and replies of all links hold.
func (s *served) heldBytes() (held int64) {
	for _, l := range s.serverLinks() {
		l.mu.Lock()
		held += l.held + l.out.bytes + l.owed - l.credit
		l.mu.Unlock()
	}
	return held
}

// A message never has more calls than a peer accepts.
func TestMessagesHaveFewerCallsThanAPeerTakes(t *testing.T) {
	var b outbox
	for id := range uint64(2 * wire.MaxCalls) {
		b.add(sized(id, 0))
	}
	for id := range uint64(2 * sendParts) {
		b.add(sized(wire.MaxCalls*2+id, 8*partSize))
	}
	for !b.isEmpty() {
		require.LessOrEqual(t, len(b.takeFrames(nil)), wire.MaxCalls)
	}
	headers := func(e *entry) int { return (e.extra - frameOverhead) / 16 }
	b.add(&entry{extra: maxExtra})
	b.add(&entry{id: 1, payload: payload, extra: maxExtra})
	sent := 0
	for _, f := range b.takeFrames(nil) {
		sent += headers(f.e)
	}
	require.LessOrEqual(t, sent, wire.MaxHeaders)
	require.Greater(t, sent, wire.MaxHeaders*9/10)
}
