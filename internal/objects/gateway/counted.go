package gateway

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/internal/peer/budget"
)

const (
	// maxUncounted is the largest request, with its metadata, that is not counted. A connection can have 64 MiB of
	// those at a time.
	maxUncounted = 4<<10 - 1
	// streamCost is roughly the memory of an idle open stream.
	streamCost = 8 << 10
	// receiveCost is the charge of a stream for the bytes that gRPC receives before they are read. It is a
	// quarter of the window (see package node), because few streams fill their window. A connection that fills
	// all of its windows takes four times as much for them.
	receiveCost = 64 << 10
	// forwardWindow is the corresponding charge for bytes that another node sends; see package link.
	forwardWindow = 128 << 10
	// sendQuota is the number of bytes of a stream that gRPC holds until the other side takes them, besides the
	// last message.
	sendQuota = 64 << 10
)

// metadataSize returns the approximate size of a call's metadata in bytes.
func metadataSize(md metadata.MD) (n int64) {
	for name, values := range md {
		for _, value := range values {
			n += int64(len(name) + len(value) + 64)
		}
	}
	return n
}

// holdRequest counts the request of a unary call, with its metadata, until the returned hold is released. A
// request that goes to another node counts twice, because it exists both as a message and in serialized form.
func (g *Gateway) holdRequest(ctx context.Context, in *route.CallHeaders, request any) (held budget.Hold, err error) {
	m, ok := request.(proto.Message)
	if !ok {
		return held, nil
	}
	size := int64(proto.Size(m)) + metadataSize(in.Metadata)
	if size <= maxUncounted {
		return held, nil
	}
	if n, known := g.cfg.Map.Shard(in.Key); known && g.cfg.Host != nil {
		if owner, _ := g.cfg.Map.Owner(n); owner != g.cfg.Self {
			size *= 2
		}
	}
	held = g.cfg.Budget.NewHold(budget.ConnectionOf(ctx))
	if !held.GrowTo(size) {
		return held, budget.ErrFull
	}
	return held, nil
}

// countedStream is a stream that charges its connection for the most that may wait to be read.
type countedStream struct {
	grpc.ServerStream
	forwarded bool // waiting bytes wait twice: for the client, and from the other node

	mu       sync.Mutex
	held     budget.Hold
	openCost int64 // bytes that it holds by being open
	sent     int64 // bytes sent, up to sendQuota
	largest  int64 // the size of the largest message
	err      error // the error of further sends
}

// countStream begins to count a stream with its metadata. If its client may send many messages, the receive window
// may be full all the time, so it is counted, too.
func (g *Gateway) countStream(stream grpc.ServerStream, md metadata.MD, clientSends, forwarded bool) (*countedStream,
	error) {
	s := &countedStream{ServerStream: stream, forwarded: forwarded, openCost: streamCost + metadataSize(md),
		held: g.cfg.Budget.NewHold(budget.ConnectionOf(stream.Context()))}
	if clientSends {
		s.openCost += receiveCost
		if forwarded {
			s.openCost += sendQuota
		}
	}
	if !s.held.GrowTo(s.openCost) {
		return nil, budget.ErrFull
	}
	return s, nil
}

// SendMsg implements grpc.ServerStream.
func (s *countedStream) SendMsg(m any) error {
	if message, ok := m.(proto.Message); ok {
		if err := s.countMessage(int64(proto.Size(message))); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(m)
}

// countMessage counts a message that is about to be sent. A stream that has sent little so far holds little, because
// gRPC's quota must be full before further messages wait.
func (s *countedStream) countMessage(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.sent == sendQuota && size <= s.largest {
		return s.err
	}
	s.sent, s.largest = min(sendQuota, s.sent+size), max(s.largest, size)
	waits := s.sent + 2*s.largest // one may be the last that fitted, the other is about to be sent
	if s.forwarded {
		waits += s.sent/sendQuota*forwardWindow + 2*s.largest
	}
	if !s.held.GrowTo(s.openCost + waits) {
		s.err = budget.ErrUnread
	}
	return s.err
}

// errStreamEnded is returned for messages that a method sends on a stream that has ended.
var errStreamEnded = status.FromContextError(context.Canceled).Err()

// releaseHold stops counting the stream. Its method may continue for a while; messages that it then sends are refused.
func (s *countedStream) releaseHold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.Release()
	s.err = errStreamEnded
}
