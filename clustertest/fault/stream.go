package fault

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// readSize is the most that is read at once.
const readSize = 32 << 10

// piece is bytes that came in together, or how a connection ended.
type piece struct {
	arrived time.Time
	data    []byte
	end     error // io.EOF, net.ErrClosed if it was closed here, else a failure
}

// stream carries one direction of a link until that ends. It reads ahead while
// delivery waits, so that a delay is a delay and not a thin line.
func (l *link) stream(d Direction, from, to *net.TCPConn) {
	q := newQueue()
	var wg sync.WaitGroup
	wg.Go(func() { l.receive(d, q, from) })
	l.deliver(d, q, to)
	q.close()
	wg.Wait()
}

// receive puts what comes in into the queue until the connection or the queue ends.
func (l *link) receive(d Direction, q *queue, from *net.TCPConn) {
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		arrived := time.Now()
		if n > 0 {
			l.relay.count(d, n, 0)
			if !q.put(piece{arrived: arrived, data: append([]byte(nil), buf[:n]...)}) {
				return
			}
		}
		if err != nil {
			q.put(piece{arrived: arrived, end: err})
			return
		}
	}
}

// deliver writes what is in the queue when its time has come, until the end of it.
func (l *link) deliver(d Direction, q *queue, to *net.TCPConn) {
	for {
		p, ok := q.take()
		if !ok {
			return
		}
		for len(p.data) > 0 {
			n, ok := l.pass(d, p.arrived, len(p.data))
			if !ok {
				return
			}
			n, err := to.Write(p.data[:n])
			l.relay.count(d, 0, n)
			if err != nil {
				l.reset(Both) // nobody is there any more: a host would answer with a RST
				return
			}
			p.data = p.data[n:]
		}
		if p.end == nil {
			continue
		}
		if _, ok := l.pass(d, p.arrived, 0); ok {
			l.finish(p.end, to)
		}
		return
	}
}

// finish passes on how a direction ended.
func (l *link) finish(end error, to *net.TCPConn) {
	switch {
	case errors.Is(end, io.EOF):
		_ = to.CloseWrite() // it may be closed already
	case errors.Is(end, net.ErrClosed): // by a reset of one end: the other is not notified
	default:
		l.reset(Both)
	}
}
