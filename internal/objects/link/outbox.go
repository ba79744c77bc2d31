package link

import (
	"time"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// entry is an outgoing call or reply. It is in one queue at most.
type entry struct {
	prev, next *entry
	inQueue    *entryQueue

	id    uint64
	call  *objectspb.Call  // of the caller's side
	reply *objectspb.Reply // of the called side

	payload []byte // the request or response
	taken   int    // bytes of the payload that were taken to be sent
	extra   int    // the size of the rest on the wire

	deadline time.Time // of a call; zero means none
	begun    uint64    // of a call: its position in the order of sending; 0 if not begun
}

func (e *entry) size() int { return len(e.payload) - e.taken + e.extra }

// entryQueue is a first-in, first-out list of entries. An entry can be removed from any position.
type entryQueue struct {
	first, last *entry
	n           int
}

func (q *entryQueue) push(e *entry) {
	e.inQueue, e.prev, e.next = q, q.last, nil
	if q.last == nil {
		q.first = e
	} else {
		q.last.next = e
	}
	q.last = e
	q.n++
}

func (q *entryQueue) remove(e *entry) {
	if e.prev == nil {
		q.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.inQueue, e.prev, e.next = nil, nil, nil
	q.n--
}

// outbox holds the entries that one side of a link has to send. It is a plain value; its owner holds a lock.
type outbox struct {
	small        entryQueue // in one piece
	large        entryQueue // in parts, not begun
	ring         entryQueue // in parts, begun; they take turns
	bytes        int64      // of all that was not taken yet
	fillMessages bool       // fill messages with further parts of the same entries
}

// frame is an entry, or a part of one, in a message.
type frame struct {
	e           *entry
	part        []byte // of the payload
	first, last bool   // a frame that is both first and last is the entry in one piece
}

func (b *outbox) isEmpty() bool { return b.small.n+b.large.n+b.ring.n == 0 }

// add appends an entry.
func (b *outbox) add(e *entry) {
	if len(e.payload) > partSize {
		b.large.push(e)
	} else {
		b.small.push(e)
	}
	b.bytes += int64(e.size())
}

// remove removes an entry, or its parts that were not taken yet. It does nothing if there are none.
func (b *outbox) remove(e *entry) {
	if e.inQueue == &b.small || e.inQueue == &b.large || e.inQueue == &b.ring {
		b.bytes -= int64(e.size())
		e.inQueue.remove(e)
	}
}

// takeFrames appends the frames of the next message. These are first the small entries that fit beside one part, but
// at least one. Then follows one part of each large entry in turn, while they fit, but at least one part. If
// fillMessages is set, further parts follow until the message is full.
func (b *outbox) takeFrames(frames []frame) []frame {
	for b.ring.n < sendParts && b.large.n > 0 {
		e := b.large.first
		b.large.remove(e)
		b.ring.push(e)
	}
	room := messageSize
	if b.ring.n > 0 {
		room -= partSize
	}
	for e := b.small.first; e != nil && (len(frames) == 0 || e.size() <= room); e = b.small.first {
		room -= e.size()
		b.bytes -= int64(e.size())
		b.small.remove(e)
		e.taken = len(e.payload)
		frames = append(frames, frame{e: e, part: e.payload, first: true, last: true})
	}
	if b.ring.n > 0 {
		room += partSize
	}
	for i, begun := 0, b.ring.n; b.ring.n > 0 && (i < begun || b.fillMessages); i++ {
		e := b.ring.first
		f := frame{e: e, part: e.payload[e.taken:min(len(e.payload), e.taken+partSize)], first: e.taken == 0}
		cost := len(f.part) + frameOverhead
		if f.first {
			cost += e.extra
		}
		if i > 0 && cost > room {
			break
		}
		room -= cost
		b.ring.remove(e)
		b.bytes -= int64(len(f.part))
		e.taken += len(f.part)
		if f.last = e.taken == len(e.payload); f.last {
			b.bytes -= int64(e.extra)
		} else {
			b.ring.push(e)
		}
		frames = append(frames, f)
	}
	return frames
}
