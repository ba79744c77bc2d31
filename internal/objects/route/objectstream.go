package route

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// Limits of the messages of a stream that are kept to be sent again in case the stream was not started.
const (
	keptMessages = 64
	keptBytes    = 256 << 10
)

// objectStream is a streaming call to an object. It keeps the messages sent, up to a bound, until its node has
// answered. If the node answers that nothing was started because the object has moved, objectStream opens the
// stream again and sends these messages again. Its errors tell callers whether the call may have run.
type objectStream struct {
	ctx     context.Context
	desc    *grpc.StreamDesc
	opts    []grpc.CallOption
	finish  func(error) // is called when the stream has ended
	attempt callAttempt // opens the stream

	mu       sync.Mutex
	current  *nodeStream
	kept     []proto.Message // nil after the first answer, and beyond the bound
	bytes    int
	answered bool          // no message is sent again any more
	closed   bool          // by CloseSend
	ended    error         // for the caller; nil while the stream is open
	resent   chan struct{} // closed when all kept messages are sent again; nil at other times
}

// nodeStream is a stream to one node.
type nodeStream struct {
	grpc.ClientStream
	conn       *grpc.ClientConn
	owner      string
	generation int64
	receiving  sync.Mutex
}

// RecvMsg implements grpc.ClientStream. Header calls it when the stream has ended, perhaps beside the caller's own
// RecvMsg; gRPC allows one at a time.
func (n *nodeStream) RecvMsg(m any) error {
	n.receiving.Lock()
	defer n.receiving.Unlock()
	return n.ClientStream.RecvMsg(m)
}

// openStream opens the stream at the object's present node.
func (s *objectStream) openStream() error {
	a := &s.attempt
	for {
		now, err := a.openStream(s.ctx, s.desc, s.opts)
		if err == nil {
			s.current = now
			return nil
		}
		if !errors.Is(err, errRetry) {
			return err
		}
		a.router.counters.Retried.Add(1)
		if err := a.checkTime(s.ctx); err != nil {
			return a.notStartedError(s.ctx, "its time is over", err)
		}
	}
}

func (s *objectStream) currentStream() *nodeStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Header implements grpc.ClientStream.
func (s *objectStream) Header() (metadata.MD, error) {
	for {
		now := s.currentStream()
		md, err := now.Header()
		if err == nil && md != nil {
			s.markAnswered()
			return md, nil
		}
		if err == nil { // it has ended without a header: receiving returns the reason
			err = now.RecvMsg(&emptypb.Empty{})
		}
		if err = s.reopen(now, err); errors.Is(err, io.EOF) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// Trailer implements grpc.ClientStream.
func (s *objectStream) Trailer() metadata.MD { return s.currentStream().Trailer() }

// Context implements grpc.ClientStream.
func (s *objectStream) Context() context.Context { return s.currentStream().Context() }

// CloseSend implements grpc.ClientStream.
func (s *objectStream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.resent != nil {
		return nil // resendKept closes it afterwards
	}
	return s.current.CloseSend()
}

// SendMsg implements grpc.ClientStream.
func (s *objectStream) SendMsg(m any) error {
	s.mu.Lock()
	now, kept, resent := s.current, s.keepMessage(m), s.resent
	s.mu.Unlock()
	if resent != nil {
		<-resent // closed at the latest when the stream ends
	}
	err := now.SendMsg(m)
	switch {
	case errors.Is(err, io.EOF) && kept:
		return nil // RecvMsg returns the reason, or sends all again
	case err != nil && !errors.Is(err, io.EOF): // the message cannot be sent, which ends the stream
		s.finish(err)
	}
	return err
}

// keepMessage keeps a message to be sent again, and reports whether it did. The caller holds the lock.
func (s *objectStream) keepMessage(m any) bool {
	message, ok := m.(proto.Message)
	if s.answered || !ok {
		return false
	}
	size := proto.Size(message)
	if len(s.kept) == keptMessages || s.bytes+size > keptBytes {
		s.answered, s.kept = true, nil
		return false
	}
	s.kept, s.bytes = append(s.kept, proto.Clone(message)), s.bytes+size
	return true
}

// markAnswered records that the node has answered, so the call was started.
func (s *objectStream) markAnswered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered, s.kept = true, nil
}

// RecvMsg implements grpc.ClientStream.
func (s *objectStream) RecvMsg(m any) error {
	for {
		s.mu.Lock()
		now, ended, answered := s.current, s.ended, s.answered
		s.mu.Unlock()
		if ended != nil {
			return ended
		}
		err := now.RecvMsg(m)
		if err == nil {
			if !answered {
				s.markAnswered()
			}
			if !s.desc.ServerStreams { // it was the only one
				s.finish(nil)
			}
			return nil
		}
		if err = s.reopen(now, err); err != nil {
			return err
		}
	}
}

// reopen opens the stream again if err, with which was has ended, means that nothing was started. Otherwise the stream
// has ended; reopen returns the error for the caller, the same from then on. Two callers may learn of the end of the
// same stream: the second one finds it replaced, or the error of the first.
func (s *objectStream) reopen(was *nodeStream, err error) error {
	s.mu.Lock()
	if s.current == was && s.ended == nil {
		s.ended = s.replaceStream(was, err)
	}
	ended := s.ended
	s.mu.Unlock()
	if ended != nil {
		s.finish(ended)
	}
	return ended
}

// replaceStream opens the stream again and sends all kept messages again, if err means that nothing was started.
// Otherwise it returns the error for the caller. The caller holds the lock.
func (s *objectStream) replaceStream(was *nodeStream, err error) error {
	if s.answered || objects.ReasonOf(err) != objects.ReasonNotStarted || s.ctx.Err() != nil {
		return s.callerError(was, err)
	}
	s.attempt.setDeadline(s.ctx)
	if err := s.attempt.awaitRetry(s.ctx, SeenOwner{was.owner, was.generation, 0},
		errors.New(status.Convert(err).Message())); !errors.Is(err, errRetry) {
		return err
	}
	if err := s.openStream(); err != nil {
		return err
	}
	// In a goroutine, because the node may stop reading until its own messages are received.
	s.resent = make(chan struct{})
	go s.resendKept(s.current, slices.Clone(s.kept), s.resent)
	return nil
}

// resendKept sends the kept messages to another node. It ends with the stream at the latest.
func (s *objectStream) resendKept(to *nodeStream, kept []proto.Message, sent chan struct{}) {
	for _, m := range kept {
		if err := to.SendMsg(m); err != nil {
			break // receiving returns the reason
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resent == sent {
		s.resent = nil
		if s.closed {
			_ = to.CloseSend() // always nil
		}
	}
	close(sent)
}

// callerError returns the error for the caller. It replaces err only if the stream's node, or the connection to it,
// was lost.
func (s *objectStream) callerError(was *nodeStream, err error) error {
	if errors.Is(err, io.EOF) || s.ctx.Err() != nil {
		return err
	}
	switch code := status.Code(err); {
	case code == codes.Unavailable && objects.ReasonOf(err) == "",
		code == codes.Canceled && was.conn.GetState() == connectivity.Shutdown:
		return hosted.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
			"objects: lost "+was.owner+", where the object of this stream was: "+status.Convert(err).Message())
	}
	return err
}
