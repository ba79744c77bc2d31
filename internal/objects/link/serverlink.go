package link

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/internal/peer/budget"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// takenKey is the trailer with the number of a link's calls that the server has begun to read. From it the
// caller learns which calls were certainly not started.
const takenKey = "goverse-link-taken"

// serverLink is the called side of one link. It has a goroutine that reads and one that writes; the goroutine
// of the gRPC handler waits for the end.
type serverLink struct {
	server *Server
	stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]
	ctx    context.Context
	wake   wait.Signal // wakes the writer
	room   wait.Signal // wakes the reader when less is held
	ended  chan struct{}

	connection any // identifies the connection in the budget

	mu       sync.Mutex
	inbound  *inboundCalls
	out      outbox
	sent     []*Incoming // calls with replies in the message that is being sent
	held     int64       // bytes of unanswered calls
	corked   bool        // the reader passes on calls, and wakes the writer afterwards
	idle     bool        // the writer waits
	waiting  bool        // the reader waits for room
	draining error       // set: accept no calls, and end with this error once idle; io.EOF means no error
	stopped  bool
	err      error // the error with which the link has ended
	owed     int64 // bytes of the budget that the link holds
	credit   int64 // the unused part of owed, which saves asking the budget for each call
	spare    int64 // the part of credit that was not needed since the last tick
	counted  int64 // the part of owed for replies that wait to be sent
}

func newServerLink(s *Server,
	stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]) *serverLink {
	l := &serverLink{server: s, stream: stream, ctx: stream.Context(), wake: wait.NewSignal(),
		room: wait.NewSignal(), ended: make(chan struct{}), inbound: newInboundCalls(s.cfg.Prefix, s.cfg.MaxMessage)}
	l.connection = budget.ConnectionOf(l.ctx)
	l.inbound.takeBytes, l.inbound.giveBytes = l.chargeBytes, l.releaseBytes
	return l
}

// chargeBytes charges bytes to the link. It returns false if the budget refuses them. The caller holds the lock, also
// for releaseBytes and chargeAnyway.
func (l *serverLink) chargeBytes(n int64) bool {
	if l.credit < n {
		taken, ok := l.server.cfg.Budget.ChargeUpTo(l.connection, n, max(n, creditStep))
		if !ok {
			return false
		}
		l.owed, l.credit = l.owed+taken, l.credit+taken
	}
	l.credit -= n
	l.spare = min(l.spare, l.credit)
	return true
}

// releaseBytes releases bytes of the link. A link that has ended holds none.
func (l *serverLink) releaseBytes(n int64) {
	if l.stopped {
		return
	}
	l.credit += n
	if l.credit > 2*creditStep || l.credit < 0 {
		l.returnCredit(l.credit - creditStep)
	}
	l.spare = min(l.spare, l.credit)
}

// returnCredit returns n bytes of the link's credit to the budget. A negative n takes bytes, even beyond the limit.
func (l *serverLink) returnCredit(n int64) {
	l.server.cfg.Budget.Release(l.connection, n)
	l.owed, l.credit = l.owed-n, l.credit-n
}

// chargeAnyway charges bytes to the link, even beyond the limit.
func (l *serverLink) chargeAnyway(n int64) { l.releaseBytes(-n) }

// awaitEnd blocks until the link has ended, and returns the status of the stream.
func (l *serverLink) awaitEnd() error {
	look := time.NewTicker(expireEvery)
	defer look.Stop()
	for over := false; !over; {
		select {
		case <-l.ended:
			over = true
		case <-l.ctx.Done():
			l.stopLink(status.FromContextError(l.ctx.Err()).Err())
			over = true
		case <-look.C:
			l.expirePartials()
		}
	}
	l.mu.Lock()
	err, taken := l.err, l.inbound.begun
	l.mu.Unlock()
	l.stream.SetTrailer(metadata.Pairs(takenKey, strconv.FormatUint(taken, 10)))
	return err
}

// expirePartials answers the incomplete calls that receive no further parts, and returns the credit that was not needed
// since the last tick.
func (l *serverLink) expirePartials() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.returnCredit(l.spare)
		l.spare = l.credit
	}
	for _, id := range l.inbound.expirePartials(time.Now()) {
		l.queueReply(&Incoming{id: id}, statusReply(codes.DeadlineExceeded,
			"link: no further part of the request has come for "+
				partIdle.String()))
		if l.idle {
			l.idle = false
			l.wake.Send()
		}
	}
}

// stopLink ends the link at once. It returns false if the link had already ended.
func (l *serverLink) stopLink(err error) bool {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return false
	}
	l.server.cfg.Budget.Release(l.connection, l.owed)
	l.stopped, l.err = true, err
	var cancels []func()
	for _, c := range l.inbound.calls {
		if f := c.endWait(); f != nil {
			cancels = append(cancels, f)
		}
	}
	clear(l.inbound.calls)
	clear(l.inbound.partials)
	l.out = outbox{}
	l.mu.Unlock()
	close(l.ended)
	for _, f := range cancels {
		f()
	}
	return true
}

// drain stops the acceptance of calls, and ends the link once all replies are sent. io.EOF as err means no
// error.
func (l *serverLink) drain(err error) {
	l.mu.Lock()
	if l.draining == nil {
		l.draining = err
	}
	l.idle = false
	l.mu.Unlock()
	l.wake.Send()
}

// readCalls receives messages until the link ends.
func (l *serverLink) readCalls() {
	defer l.server.wg.Done()
	m := wire.NewRequest()
	for {
		err := l.stream.RecvMsg(m)
		switch {
		case errors.Is(err, io.EOF):
			l.drain(io.EOF)
			return
		case err != nil:
			l.stopLink(err)
			return
		}
		if !l.receiveMessage(&m.Message) {
			return
		}
	}
}

// receiveMessage handles one message. It blocks until the next one may be read, and returns false if none may.
func (l *serverLink) receiveMessage(m *objectspb.LinkRequest) bool {
	l.mu.Lock()
	if l.stopped || l.draining != nil {
		l.mu.Unlock()
		return false
	}
	first := !l.inbound.greeted
	a, err := l.inbound.receiveMessage(m)
	if err != nil {
		l.mu.Unlock()
		l.stopLink(err)
		return false
	}
	var cancels []func()
	for _, c := range a.cancelled {
		l.out.remove(&c.entry)
		l.chargeReplies()
		if f := c.endWait(); f != nil {
			cancels = append(cancels, f)
		}
	}
	for _, c := range a.calls {
		if c.l == nil {
			c.l = l
		}
		l.held += c.cost
	}
	for _, id := range a.full {
		l.queueReply(&Incoming{id: id}, &objectspb.Reply{Status: fullStatus})
	}
	for _, id := range a.refused {
		l.queueReply(&Incoming{id: id}, statusReply(codes.ResourceExhausted, "link: the request has more than "+
			strconv.Itoa(l.server.cfg.MaxMessage)+" bytes: send less, or raise MaxMessage on both sides"))
	}
	l.corked = true
	l.mu.Unlock()
	if first {
		// The header shows the caller that it was accepted. An interceptor may have sent it already.
		_ = l.stream.SendHeader(nil)
	}
	for _, c := range a.calls {
		l.server.cfg.Handler.Serve(c)
	}
	clear(a.calls)
	for _, f := range cancels {
		f()
	}
	l.mu.Lock()
	l.corked = false
	wake := l.idle && !l.out.isEmpty()
	if wake {
		l.idle = false
	}
	full := l.isFull()
	l.waiting = full
	l.mu.Unlock()
	if wake {
		l.wake.Send()
	}
	return !full || l.waitForRoom()
}

// isFull reports whether the reader must wait. The caller holds the lock.
func (l *serverLink) isFull() bool {
	return l.held > l.server.cfg.maxHeld || l.out.bytes > l.server.cfg.maxBuffered ||
		l.out.bytes > unaskedReplies && l.server.cfg.Budget.OverLimit(l.connection)
}

// waitForRoom blocks until less is held. It returns false if the link ends first.
func (l *serverLink) waitForRoom() bool {
	for {
		select {
		case <-l.room:
		case <-l.ended:
			return false
		}
		l.mu.Lock()
		full := l.isFull()
		l.waiting = full
		l.mu.Unlock()
		if !full {
			return true
		}
	}
}
