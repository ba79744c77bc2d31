package gateway

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/budget"
	"github.com/goverse/goverse/internal/objects/route"
)

const (
	// uncounted is the size of requests, with their metadata, that are not counted: of those a connection can have
	// 64 MiB at a time.
	uncounted = 4<<10 - 1
	// streamCost is about what an open stream takes by itself.
	streamCost = 8 << 10
	// receiveCost is what a stream counts for what gRPC receives before it is read: a quarter of the window, see package
	// node, for few streams fill theirs. A connection that fills all of its windows takes four times as much for them.
	receiveCost = 64 << 10
	// forwardWindow is the same of what another node sends: see package link.
	forwardWindow = 128 << 10
	// sendQuota is how much of a stream gRPC keeps that the other side does not take, beside the last message.
	sendQuota = 64 << 10
)

// connectionOf is the connection of a call, for the budget.
func connectionOf(ctx context.Context) any {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	return budget.Connection(p.Addr)
}

// sizeOf is about how many bytes the metadata of a call takes.
func sizeOf(md metadata.MD) (n int64) {
	for name, values := range md {
		for _, value := range values {
			n += int64(len(name) + len(value) + 64)
		}
	}
	return n
}

// holdRequest counts the request of a unary call, with its metadata, until it has ended. One that goes on to another
// node is there twice, as a message and as its bytes.
func (g *Gateway) holdRequest(ctx context.Context, in *route.Incoming, request any) (held budget.Hold, err error) {
	m, ok := request.(proto.Message)
	if !ok {
		return held, nil
	}
	size := int64(proto.Size(m)) + sizeOf(in.Metadata)
	if size <= uncounted {
		return held, nil
	}
	if n, known := g.cfg.Map.Shard(in.Key); known && g.cfg.Host != nil {
		if owner, _ := g.cfg.Map.Owner(n); owner != g.cfg.Self {
			size *= 2
		}
	}
	held = g.cfg.Budget.Hold(connectionOf(ctx))
	if !held.Grow(size) {
		return held, budget.ErrFull
	}
	return held, nil
}

// counted is a stream of which what waits to be read, at most, counts against what its connection may hold.
type counted struct {
	grpc.ServerStream
	forwarded bool // what waits, waits twice: here for its client, and for this node

	mu     sync.Mutex
	held   budget.Hold
	opened int64 // bytes that it holds by being open
	sent   int64 // up to sendQuota
	most   int64 // size of the largest message
	err    error // with which it is refused to go on
}

// count begins to count a stream with its metadata. Of one whose client sends many messages, the window may be full all
// the time.
func (g *Gateway) count(stream grpc.ServerStream, md metadata.MD, clientSends, forwarded bool) (*counted, error) {
	s := &counted{ServerStream: stream, forwarded: forwarded, opened: streamCost + sizeOf(md),
		held: g.cfg.Budget.Hold(connectionOf(stream.Context()))}
	if clientSends {
		s.opened += receiveCost
		if forwarded {
			s.opened += sendQuota
		}
	}
	if !s.held.Grow(s.opened) {
		return nil, budget.ErrFull
	}
	return s, nil
}

// SendMsg implements grpc.ServerStream.
func (s *counted) SendMsg(m any) error {
	if message, ok := m.(proto.Message); ok {
		if err := s.grow(int64(proto.Size(message))); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(m)
}

// grow counts a message that is about to be sent. A stream that has never sent much holds little: nothing waits in gRPC
// before that is full.
func (s *counted) grow(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.sent == sendQuota && size <= s.most {
		return s.err
	}
	s.sent, s.most = min(sendQuota, s.sent+size), max(s.most, size)
	waits := s.sent + 2*s.most // one may be the last that fitted, one is about to be sent
	if s.forwarded {
		waits += s.sent/sendQuota*forwardWindow + 2*s.most
	}
	if !s.held.Grow(s.opened + waits) {
		s.err = budget.ErrUnread
	}
	return s.err
}

// errOver refuses what a method sends over a stream that has ended.
var errOver = status.FromContextError(context.Canceled).Err()

// release counts the stream no longer. Its method may go on for a while, and what it sends then goes nowhere.
func (s *counted) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.Release()
	s.err = errOver
}
