package link

import (
	"errors"
	"io"
	"runtime"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// recordReply records the reply to a call.
func (l *serverLink) recordReply(c *Incoming, r *objectspb.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.answered {
		return
	}
	c.answered, c.onCancel = true, nil
	l.held -= c.cost
	l.releaseBytes(c.cost)
	if !c.ended {
		l.queueReply(c, r)
	}
	if l.idle && !l.corked && !c.ended {
		l.idle = false
		l.wake.Send()
	}
	l.wakeReader()
}

// queueReply appends a reply to the outbox. The caller holds the lock.
func (l *serverLink) queueReply(c *Incoming, r *objectspb.Reply) {
	c.entry = entry{id: c.id, reply: r, payload: r.Response, extra: extraOfReply(r)}
	l.out.add(&c.entry)
	l.chargeReplies()
}

// chargeReplies charges the waiting replies to the link. The caller holds the lock.
func (l *serverLink) chargeReplies() {
	if waits := l.out.bytes; !l.stopped && waits != l.counted {
		l.chargeAnyway(waits - l.counted)
		l.counted = waits
	}
}

// wakeReader wakes the reader if there is room. The caller holds the lock.
func (l *serverLink) wakeReader() {
	if l.waiting && !l.isFull() {
		l.waiting = false
		l.room.Send()
	}
}

// writeReplies sends replies until the link ends.
func (l *serverLink) writeReplies() {
	defer l.server.wg.Done()
	var frames []frame
	message := wire.NewResponse()
	m := &message.Message
	for {
		var end error
		if frames, end = l.nextFrames(frames[:0]); end != nil {
			if errors.Is(end, io.EOF) {
				end = nil
			}
			l.stopLink(end)
			return
		}
		if len(frames) == 0 {
			select {
			case <-l.wake:
				// Runnable goroutines may have more to send.
				runtime.Gosched()
				continue
			case <-l.ended:
				return
			}
		}
		for _, f := range frames {
			m.Replies = append(m.Replies, f.toReply())
		}
		if err := l.stream.SendMsg(message); err != nil {
			l.stopLink(err)
			return
		}
		clear(frames)
		clear(m.Replies)
		m.Replies = m.Replies[:0]
	}
}

// nextFrames appends the frames of the next message. If there are none, the writer must wait, or end the link with
// the error if that is set.
func (l *serverLink) nextFrames(frames []frame) (_ []frame, end error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return frames, nil
	}
	for _, c := range l.sent {
		l.inbound.freeCall(c)
	}
	clear(l.sent)
	l.sent = l.sent[:0]
	frames = l.out.takeFrames(frames)
	l.chargeReplies()
	for _, f := range frames {
		if c := l.inbound.calls[f.e.id]; f.last && c != nil && &c.entry == f.e {
			delete(l.inbound.calls, f.e.id)
			l.sent = append(l.sent, c)
		}
	}
	l.wakeReader()
	if len(frames) == 0 {
		if l.draining != nil && len(l.inbound.calls) == 0 {
			return frames, l.draining
		}
		l.idle = true
	}
	return frames, nil
}
