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
)

// What is kept of a stream, to be sent again should it not have been started.
const (
	keptMessages = 64
	keptBytes    = 256 << 10
)

// objectStream is a streaming call to an object. Until its node has answered anything, what was sent is kept, up to a
// bound: if the answer is that nothing was started, because the object has moved, the stream is opened again and all
// of that sent again. Its errors say what a caller may conclude.
type objectStream struct {
	ctx     context.Context
	desc    *grpc.StreamDesc
	opts    []grpc.CallOption
	attempt attempt // by who opens it

	mu       sync.Mutex
	now      *opened
	kept     []proto.Message // nil from the first answer on, and beyond the bound
	bytes    int
	answered bool // nothing is sent again any more
	closed   bool // by CloseSend
	ended    error
	resent   chan struct{} // closed when all that was kept is sent again; nil while nothing is
}

// opened is a stream to one node.
type opened struct {
	grpc.ClientStream
	conn       *grpc.ClientConn
	owner      string
	generation int64
}

// open opens the stream, wherever the object is by then.
func (s *objectStream) open() error {
	a := &s.attempt
	a.deadline, _ = s.ctx.Deadline()
	for {
		now, err := a.open(s.ctx, s.desc, s.opts)
		if err == nil {
			s.now = now
			return nil
		}
		if !errors.Is(err, errAgain) {
			return err
		}
		a.router.figures.Retried.Add(1)
		if err := a.late(s.ctx); err != nil {
			return a.notStarted(s.ctx, "its time is over", err)
		}
	}
}

func (s *objectStream) current() *opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Header implements grpc.ClientStream.
func (s *objectStream) Header() (metadata.MD, error) {
	for {
		now := s.current()
		md, err := now.Header()
		if err == nil && md != nil {
			s.answer()
			return md, nil
		}
		if err == nil { // it has ended without any: receiving says why
			err = now.RecvMsg(&emptypb.Empty{})
		}
		if err = s.again(now, err); err != nil {
			s.mu.Lock()
			s.ended = err
			s.mu.Unlock()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return nil, err
		}
	}
}

// Trailer implements grpc.ClientStream.
func (s *objectStream) Trailer() metadata.MD { return s.current().Trailer() }

// Context implements grpc.ClientStream.
func (s *objectStream) Context() context.Context { return s.current().Context() }

// CloseSend implements grpc.ClientStream.
func (s *objectStream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.resent != nil {
		return nil // it follows what is sent again
	}
	return s.now.CloseSend()
}

// SendMsg implements grpc.ClientStream.
func (s *objectStream) SendMsg(m any) error {
	s.mu.Lock()
	now, kept, resent := s.now, s.keep(m), s.resent
	s.mu.Unlock()
	if resent != nil {
		<-resent // it ends with the stream at the latest
	}
	err := now.SendMsg(m)
	if errors.Is(err, io.EOF) && kept {
		return nil // receiving says why it has ended, or sends all again
	}
	return err
}

// keep keeps a message to be sent again. The lock is held.
func (s *objectStream) keep(m any) bool {
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

// answer: the node has answered, so the call has been started.
func (s *objectStream) answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered, s.kept = true, nil
}

// RecvMsg implements grpc.ClientStream.
func (s *objectStream) RecvMsg(m any) error {
	for {
		s.mu.Lock()
		now, ended, answered := s.now, s.ended, s.answered
		s.mu.Unlock()
		if ended != nil {
			return ended
		}
		err := now.RecvMsg(m)
		if err == nil {
			if !answered {
				s.answer()
			}
			return nil
		}
		if err = s.again(now, err); err != nil {
			return err
		}
	}
}

// again opens the stream anew and sends all again, if err says that nothing was started; else it returns the error for
// the caller.
func (s *objectStream) again(was *opened, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered || objects.ReasonOf(err) != objects.ReasonNotStarted || s.ctx.Err() != nil {
		return s.explain(was, err)
	}
	s.attempt.deadline, _ = s.ctx.Deadline()
	if err := s.attempt.await(s.ctx, Seen{was.owner, was.generation, 0},
		errors.New(status.Convert(err).Message())); !errors.Is(err, errAgain) {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	// Not here: the node may not read on before its own messages are received.
	s.resent = make(chan struct{})
	go s.resend(s.now, slices.Clone(s.kept), s.resent)
	return nil
}

// resend sends again what was sent to another node. It ends with the stream.
func (s *objectStream) resend(to *opened, kept []proto.Message, sent chan struct{}) {
	for _, m := range kept {
		if err := to.SendMsg(m); err != nil {
			break // receiving says why
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

// explain is the error of a stream whose node, or the connection to it, was lost; others are as they are.
func (s *objectStream) explain(was *opened, err error) error {
	if errors.Is(err, io.EOF) || s.ctx.Err() != nil {
		return err
	}
	switch code := status.Code(err); {
	case code == codes.Unavailable && objects.ReasonOf(err) == "",
		code == codes.Canceled && was.conn.GetState() == connectivity.Shutdown:
		return objects.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
			"objects: lost "+was.owner+", where the object of this stream was: "+status.Convert(err).Message())
	}
	return err
}
