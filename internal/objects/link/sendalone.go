package link

import (
	"errors"
	"io"
	"time"

	"github.com/goverse/goverse/internal/objects/link/wire"
)

// maySendAlone reports whether the caller may send a call itself, which saves waking the writer. That requires that
// Send does not block: the peer has read all that was sent before, because it has answered all of it or a small
// call that was sent later. The caller holds the lock, and w is already in l.outgoing.
func (l *link) maySendAlone(w *outgoing) bool {
	return l.idle && l.stream != nil && len(l.outgoing) == 1 && len(l.cancels) == 0 && l.unprovenUpTo == 0 &&
		len(w.payload) <= partSize
}

// sendAlone sends a call in place of the writer. The caller holds the lock; sendAlone releases it.
func (l *link) sendAlone(w *outgoing) {
	l.idle, l.callerSends = false, true
	l.begun++
	w.begun, w.taken = l.begun, len(w.payload)
	l.mu.Unlock()

	var now time.Time
	if !w.deadline.IsZero() {
		now = time.Now()
	}
	m := &w.message.Message
	m.Calls = append(m.Calls[:0], frame{e: &w.entry, part: w.payload, first: true, last: true}.toCall(now))
	message := wire.EncodeMessage(&w.message)
	l.written.Store(w.begun)
	m.Calls[0] = nil
	err := l.stream.SendMsg(message)
	l.mu.Lock()
	l.callerSends = false
	if l.out.isEmpty() && len(l.cancels) == 0 {
		l.idle = true
	} else {
		l.wake.Send()
	}
	l.mu.Unlock()
	if err != nil && !errors.Is(err, io.EOF) { // after io.EOF the reader gets the reason
		l.failCalls(err, -1)
	}
}
