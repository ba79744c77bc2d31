package link

import (
	"errors"
	"io"
	"runtime"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

type clientStream = grpc.BidiStreamingClient[objectspb.LinkRequest, objectspb.LinkResponse]

// run opens the link and reads from it until it ends.
func (l *link) run() {
	defer l.peer.pool.wg.Done()
	defer l.cancel()
	began := time.Now()
	s, err := l.openStream()
	if err != nil {
		l.failCalls(err, 0)
		return
	}
	l.ready.Store(true)
	l.peer.recordOpened(l.lane, time.Since(began))
	l.mu.Lock()
	l.stream = s
	l.mu.Unlock()
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.writeCalls(s)
	}()
	err = l.readReplies(s)
	l.failCalls(err, takenCalls(s))
	if errors.Is(l.err, err) && l.lane == 0 { // err is not written any more
		l.peer.pool.cfg.Logger.Info("a link for calls of objects has ended; the next call opens it again",
			"address", l.peer.address, "error", err)
	}
	<-written
}

// openStream opens the stream and returns it once the node has accepted it. If openStream fails, no call was sent.
func (l *link) openStream() (clientStream, error) {
	s, err := objectspb.NewObjectsClient(l.peer.linkConn).Link(l.ctx, grpc.WaitForReady(false),
		grpc.CallContentSubtype(wire.Subtype), grpc.MaxCallSendMsgSize(maxStreamMessage),
		grpc.MaxCallRecvMsgSize(maxStreamMessage))
	if err != nil {
		return nil, err
	}
	hello := &objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: l.peer.pool.cfg.Prefix}}
	if err := s.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if header, err := s.Header(); err != nil || header != nil {
		return s, err
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) && err != nil {
		return nil, err
	}
	return nil, errEnded
}

// errEnded is the error of a link that the node has ended without an error.
var errEnded = status.Error(codes.Unavailable, "the node has ended the link")

// takenCalls returns the number of calls that the node has begun to read on a stream that has ended, or -1 if the
// node did not report it.
func takenCalls(s clientStream) int64 {
	if values := s.Trailer().Get(takenKey); len(values) == 1 {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}

// writeCalls sends calls until the link ends.
func (l *link) writeCalls(s clientStream) {
	var b writeBuffers
	for {
		message := l.nextMessage(&b)
		var err error
		if message != nil {
			err = s.SendMsg(message)
		}
		switch {
		case errors.Is(err, io.EOF):
			return // the reader gets the reason
		case err != nil:
			l.failCalls(err, -1)
			return
		case message != nil:
			continue
		}
		select {
		case <-l.wake:
			// Runnable goroutines may have more to send.
			runtime.Gosched()
		case <-l.ctx.Done():
			return
		}
	}
}

// writeBuffers holds the buffers of the writer.
type writeBuffers struct {
	frames  []frame
	message wire.Request
}

// nextMessage returns the next message, encoded, or nil if there is none.
func (l *link) nextMessage(b *writeBuffers) *wire.EncodedMessage {
	l.encoding.Lock()
	defer l.encoding.Unlock()
	l.mu.Lock()
	if l.callerSends {
		l.mu.Unlock()
		return nil
	}
	// A distant node grants the window for a whole message once it has begun to read it, and for the next one
	// only after a round trip. So messages are filled.
	l.out.fillMessages = l.peer.isFar()
	b.frames = l.out.takeFrames(b.frames[:0])
	deadlines := false
	for _, f := range b.frames {
		if f.first {
			l.begun++
			f.e.begun = l.begun
			deadlines = deadlines || !f.e.deadline.IsZero()
		}
	}
	m := &b.message.Message
	if m.Cancelled, l.cancels = l.cancels, nil; len(m.Cancelled) > 0 {
		l.unprovenUpTo = l.begun
	}
	l.idle = len(b.frames)+len(m.Cancelled) == 0
	idle, begun := l.idle, l.begun
	l.mu.Unlock()
	if idle {
		return nil
	}
	var now time.Time
	if deadlines {
		now = time.Now()
	}
	for _, f := range b.frames {
		m.Calls = append(m.Calls, f.toCall(now))
	}
	e := wire.EncodeMessage(&b.message)
	l.written.Store(begun)
	clear(b.frames)
	clear(m.Calls)
	m.Calls = m.Calls[:0]
	return e
}

// readReplies receives replies until the link ends, and returns the reason.
func (l *link) readReplies(s clientStream) error {
	var ended []deliveredReply
	m := wire.NewResponse()
	for {
		err := s.RecvMsg(m)
		switch {
		case errors.Is(err, io.EOF):
			return errEnded
		case err != nil:
			return err
		}
		if ended, err = l.deliverReplies(&m.Message, ended[:0]); err != nil {
			return err
		}
		clear(ended)
	}
}
