package fault

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// readSize is the size of the read buffer in bytes.
const readSize = 32 << 10

// dataPiece is bytes that were read together, or the end of a connection.
type dataPiece struct {
	arrived time.Time
	data    []byte
	end     error // io.EOF, net.ErrClosed if it was closed here, otherwise a failure
}

// carryDirection carries one direction of a link until it ends. It reads ahead while a delivery waits; a delay
// therefore does not reduce the throughput.
func (l *link) carryDirection(d Direction, from, to *net.TCPConn) {
	q := newQueue()
	var wg sync.WaitGroup
	wg.Go(func() { l.receivePieces(d, q, from) })
	l.deliverPieces(d, q, to)
	q.close()
	wg.Wait()
}

// receivePieces puts the incoming bytes into the queue until the connection or the queue ends.
func (l *link) receivePieces(d Direction, q *queue, from *net.TCPConn) {
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		arrived := time.Now()
		if n > 0 {
			l.relay.countTraffic(d, n, 0)
			if !q.put(dataPiece{arrived: arrived, data: append([]byte(nil), buf[:n]...)}) {
				return
			}
		}
		if err != nil {
			q.put(dataPiece{arrived: arrived, end: err})
			return
		}
	}
}

// deliverPieces writes each piece of the queue when it is due, up to the end of the connection.
func (l *link) deliverPieces(d Direction, q *queue, to *net.TCPConn) {
	for {
		p, ok := q.take()
		if !ok {
			return
		}
		for len(p.data) > 0 {
			n, ok := l.awaitDelivery(d, p.arrived, len(p.data))
			if !ok {
				return
			}
			n, err := to.Write(p.data[:n])
			l.relay.countTraffic(d, 0, n)
			if err != nil {
				l.resetEnds(Both) // the receiver is gone: a host would answer with a RST
				return
			}
			p.data = p.data[n:]
		}
		if p.end == nil {
			continue
		}
		if _, ok := l.awaitDelivery(d, p.arrived, 0); ok {
			l.passEnd(p.end, to)
		}
		return
	}
}

// passEnd passes on the end of a direction.
func (l *link) passEnd(end error, to *net.TCPConn) {
	switch {
	case errors.Is(end, io.EOF):
		_ = to.CloseWrite() // it may be closed already
	case errors.Is(end, net.ErrClosed): // a reset closed one end; the other is not notified
	default:
		l.resetEnds(Both)
	}
}
