package link

import (
	"time"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// toCall returns the frame as it is sent. A frame in one piece is the call itself, with its remaining time.
func (f frame) toCall(now time.Time) *objectspb.Call {
	if !f.first {
		return &objectspb.Call{Id: f.e.id, Request: f.part, More: !f.last}
	}
	c := f.e.call
	c.Id, c.More, c.Timeout = f.e.id, false, timeLeft(f.e.deadline, now)
	if f.last {
		return c
	}
	return &objectspb.Call{Id: c.Id, Method: c.Method, Key: c.Key, Request: f.part, More: true, Timeout: c.Timeout,
		Metadata: c.Metadata, Chain: c.Chain, Generation: c.Generation}
}

// timeLeft returns the time until the deadline as calls carry it. 0 means no deadline, so an expired deadline
// yields the shortest time.
func timeLeft(deadline, now time.Time) int64 {
	if deadline.IsZero() {
		return 0
	}
	return max(1, int64(deadline.Sub(now)))
}

// toReply returns the frame as it is sent. The last frame is the reply itself.
func (f frame) toReply() *objectspb.Reply {
	if !f.last {
		return &objectspb.Reply{Id: f.e.id, Response: f.part, More: true}
	}
	r := f.e.reply
	r.Id, r.Response, r.More = f.e.id, f.part, false
	return r
}
