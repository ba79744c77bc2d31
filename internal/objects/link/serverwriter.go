package link

import (
	"errors"
	"io"
	"runtime"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// reply records the reply to a call.
func (l *serverLink) reply(c *Incoming, r *objectspb.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.answered {
		return
	}
	c.answered, c.onCancel = true, nil
	l.held -= c.cost
	l.give(c.cost)
	if !c.ended {
		l.push(c, r)
	}
	if l.idle && !l.corked && !c.ended {
		l.idle = false
		poke(l.wake)
	}
	l.makeRoom()
}

// push appends a reply to the outbox. The caller holds the lock.
func (l *serverLink) push(c *Incoming, r *objectspb.Reply) {
	c.entry = entry{id: c.id, reply: r, payload: r.Response, extra: extraOfReply(r)}
	l.out.add(&c.entry)
	l.account()
}

// account charges the waiting replies to the link. The caller holds the lock.
func (l *serverLink) account() {
	if waits := l.out.bytes; !l.over && waits != l.counted {
		l.owe(waits - l.counted)
		l.counted = waits
	}
}

// makeRoom wakes the reader if there is room. The caller holds the lock.
func (l *serverLink) makeRoom() {
	if l.waiting && !l.full() {
		l.waiting = false
		poke(l.room)
	}
}

// write sends replies until the link ends.
func (l *serverLink) write() {
	defer l.s.wg.Done()
	var frames []frame
	message := wire.NewResponse()
	m := &message.Message
	for {
		var end error
		if frames, end = l.next(frames[:0]); end != nil {
			if errors.Is(end, io.EOF) {
				end = nil
			}
			l.stop(end)
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
			l.stop(err)
			return
		}
		clear(frames)
		clear(m.Replies)
		m.Replies = m.Replies[:0]
	}
}

// next appends the frames of the next message. If there are none, the writer must wait, or end the link with
// the error if that is set.
func (l *serverLink) next(frames []frame) (_ []frame, end error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return frames, nil
	}
	for _, c := range l.sent {
		l.in.free(c)
	}
	clear(l.sent)
	l.sent = l.sent[:0]
	frames = l.out.take(frames)
	l.account()
	for _, f := range frames {
		if c := l.in.calls[f.e.id]; f.last && c != nil && &c.entry == f.e {
			delete(l.in.calls, f.e.id)
			l.sent = append(l.sent, c)
		}
	}
	l.makeRoom()
	if len(frames) == 0 {
		if l.draining != nil && len(l.in.calls) == 0 {
			return frames, l.draining
		}
		l.idle = true
	}
	return frames, nil
}
