package fault

import "sync"

// queueBytes limits the bytes that a relay holds for one direction of a connection. Beyond that the sender
// blocks, as with a full TCP window.
const queueBytes = 1 << 20

// queue holds the pieces of one direction between receivePieces and deliverPieces.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	pieces  []dataPiece
	bytes   int
	closed  bool
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

// put appends a piece as soon as there is room. It returns false if the queue was closed.
func (q *queue) put(p dataPiece) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && q.bytes > 0 && q.bytes+len(p.data) > queueBytes {
		q.changed.Wait()
	}
	if q.closed {
		return false
	}
	q.pieces = append(q.pieces, p)
	q.bytes += len(p.data)
	q.changed.Broadcast()
	return true
}

// take removes and returns the first piece as soon as there is one. It returns false if the queue was closed.
func (q *queue) take() (dataPiece, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && len(q.pieces) == 0 {
		q.changed.Wait()
	}
	if q.closed {
		return dataPiece{}, false
	}
	p := q.pieces[0]
	q.pieces = q.pieces[1:]
	q.bytes -= len(p.data)
	q.changed.Broadcast()
	return p, true
}

// close wakes both sides and discards all pieces.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.pieces = nil
	q.changed.Broadcast()
}
