package link

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/budget"
	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// takenKey is the trailer in which a server says how many calls of a link it has begun to read, so that the caller
// knows which were certainly not started.
const takenKey = "goverse-link-taken"

// serverLink is the called side of one link: a goroutine that reads, one that writes, and that of the gRPC handler,
// which waits for the end.
type serverLink struct {
	s      *Server
	stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]
	ctx    context.Context
	wake   chan struct{} // for the writer
	room   chan struct{} // for the reader: less is held
	ended  chan struct{}

	connection any // for the budget

	mu       sync.Mutex
	in       *inbound
	out      outbox
	sent     []*Incoming // whose replies are in the message that is being sent
	held     int64       // bytes of calls that were not answered
	corked   bool        // the reader hands out calls, and wakes the writer afterwards
	idle     bool        // the writer waits
	waiting  bool        // the reader waits for room
	draining error       // no further calls are taken, and the link ends with that (io.EOF: well) once it is idle
	over     bool
	err      error // with which the link has ended
	owed     int64 // bytes of the budget that the link holds
	credit   int64 // of them, those that nothing takes: the budget is not asked for each call
	spare    int64 // of these, what was not needed since the last look
	counted  int64 // of them, those that wait to be sent
}

func newServerLink(s *Server,
	stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]) *serverLink {
	l := &serverLink{s: s, stream: stream, ctx: stream.Context(), wake: make(chan struct{}, 1),
		room: make(chan struct{}, 1), ended: make(chan struct{}), in: newInbound(s.cfg.Prefix, s.cfg.MaxMessage)}
	var remote net.Addr
	if p, ok := grpcpeer.FromContext(l.ctx); ok {
		remote = p.Addr
	}
	l.connection = budget.Connection(remote)
	l.in.takeBytes, l.in.giveBytes = l.take, l.give
	return l
}

// take has the link hold bytes, unless they are too many. The lock is held, as it is for give and owe.
func (l *serverLink) take(n int64) bool {
	if l.credit < n {
		taken, ok := l.s.cfg.Budget.TakeUpTo(l.connection, n, max(n, creditStep))
		if !ok {
			return false
		}
		l.owed, l.credit = l.owed+taken, l.credit+taken
	}
	l.credit -= n
	l.spare = min(l.spare, l.credit)
	return true
}

// give has the link hold fewer bytes. A link that has ended holds none.
func (l *serverLink) give(n int64) {
	if l.over {
		return
	}
	l.credit += n
	if l.credit > 2*creditStep || l.credit < 0 {
		l.giveBack(l.credit - creditStep)
	}
	l.spare = min(l.spare, l.credit)
}

// giveBack gives the budget what the link has in hand; less than nothing is taken from it, also where it is too much.
func (l *serverLink) giveBack(n int64) {
	l.s.cfg.Budget.Give(l.connection, n)
	l.owed, l.credit = l.owed-n, l.credit-n
}

// owe has the link hold more bytes, also where they are too many.
func (l *serverLink) owe(n int64) { l.give(-n) }

// wait returns when the link has ended, with the status of the stream.
func (l *serverLink) wait() error {
	look := time.NewTicker(expireEvery)
	defer look.Stop()
	for over := false; !over; {
		select {
		case <-l.ended:
			over = true
		case <-l.ctx.Done():
			l.stop(status.FromContextError(l.ctx.Err()).Err())
			over = true
		case <-look.C:
			l.expire()
		}
	}
	l.mu.Lock()
	err, taken := l.err, l.in.begun
	l.mu.Unlock()
	l.stream.SetTrailer(metadata.Pairs(takenKey, strconv.FormatUint(taken, 10)))
	return err
}

// expire answers the calls whose parts have ceased to come, and gives back what the link has not needed since the last
// look.
func (l *serverLink) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.giveBack(l.spare)
		l.spare = l.credit
	}
	for _, id := range l.in.expire(time.Now()) {
		l.push(&Incoming{id: id}, failure(codes.DeadlineExceeded, "link: no further part of the request has come for "+
			partIdle.String()))
		if l.idle {
			l.idle = false
			poke(l.wake)
		}
	}
}

// stop ends the link at once, and reports whether it had not ended before.
func (l *serverLink) stop(err error) bool {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return false
	}
	l.s.cfg.Budget.Give(l.connection, l.owed)
	l.over, l.err = true, err
	var cancels []func()
	for _, c := range l.in.calls {
		if f := c.end(); f != nil {
			cancels = append(cancels, f)
		}
	}
	clear(l.in.calls)
	clear(l.in.open)
	l.out = outbox{}
	l.mu.Unlock()
	close(l.ended)
	for _, f := range cancels {
		f()
	}
	return true
}

// drain takes no further calls, and ends the link once all replies are sent. An error of io.EOF ends it well.
func (l *serverLink) drain(err error) {
	l.mu.Lock()
	if l.draining == nil {
		l.draining = err
	}
	l.idle = false
	l.mu.Unlock()
	poke(l.wake)
}

// read takes in messages until the link ends.
func (l *serverLink) read() {
	defer l.s.wg.Done()
	m := wire.NewRequest()
	for {
		err := l.stream.RecvMsg(m)
		switch {
		case errors.Is(err, io.EOF):
			l.drain(io.EOF)
			return
		case err != nil:
			l.stop(err)
			return
		}
		if !l.receive(&m.Message) {
			return
		}
	}
}

// receive handles one message, and reports whether a next one may be read; it waits until that is so.
func (l *serverLink) receive(m *objectspb.LinkRequest) bool {
	l.mu.Lock()
	if l.over || l.draining != nil {
		l.mu.Unlock()
		return false
	}
	first := !l.in.greeted
	a, err := l.in.receive(m)
	if err != nil {
		l.mu.Unlock()
		l.stop(err)
		return false
	}
	var cancels []func()
	for _, c := range a.cancelled {
		l.out.remove(&c.entry)
		l.account()
		if f := c.end(); f != nil {
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
		l.push(&Incoming{id: id}, &objectspb.Reply{Status: fullStatus})
	}
	for _, id := range a.refused {
		l.push(&Incoming{id: id}, failure(codes.ResourceExhausted, "link: the request has more than "+
			strconv.Itoa(l.s.cfg.MaxMessage)+" bytes: send less, or raise MaxMessage on both sides"))
	}
	l.corked = true
	l.mu.Unlock()
	if first {
		// By the header the caller knows that it was accepted. An interceptor may have sent it before.
		_ = l.stream.SendHeader(nil)
	}
	for _, c := range a.calls {
		l.s.cfg.Handler.Serve(c)
	}
	clear(a.calls)
	for _, f := range cancels {
		f()
	}
	l.mu.Lock()
	l.corked = false
	wake := l.idle && !l.out.empty()
	if wake {
		l.idle = false
	}
	full := l.full()
	l.waiting = full
	l.mu.Unlock()
	if wake {
		poke(l.wake)
	}
	return !full || l.waitForRoom()
}

// full reports whether the reader is to wait. The lock is held.
func (l *serverLink) full() bool {
	return l.held > l.s.cfg.MaxHeld || l.out.bytes > l.s.cfg.MaxBuffered ||
		l.out.bytes > unaskedReplies && l.s.cfg.Budget.Over(l.connection)
}

// waitForRoom blocks until less is held, and reports false if the link ends before.
func (l *serverLink) waitForRoom() bool {
	for {
		select {
		case <-l.room:
		case <-l.ended:
			return false
		}
		l.mu.Lock()
		full := l.full()
		l.waiting = full
		l.mu.Unlock()
		if !full {
			return true
		}
	}
}

// poke wakes the goroutine that waits on c, or the next time it is about to.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
