package wire

import (
	"sync"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// maxKept is how many bytes of space a call or a reply may have that is used again.
const maxKept = 64 << 10

var (
	calls   = sync.Pool{New: func() any { return &objectspb.Call{} }}
	replies = sync.Pool{New: func() any { return &objectspb.Reply{} }}
)

// NewCall returns an empty call, with space that was used before.
func NewCall() *objectspb.Call { return calls.Get().(*objectspb.Call) }

func newReply() *objectspb.Reply { return replies.Get().(*objectspb.Reply) }

// FreeCall gives a call back that was received or made by NewCall, to be used again with the space of its key and its
// request: nobody reads it, or these, any more. What it refers to otherwise may be kept.
func FreeCall(c *objectspb.Call) {
	if c == nil || cap(c.Request)+cap(c.Key) > maxKept {
		return
	}
	c.Id, c.Method, c.Key, c.Request, c.More = 0, "", c.Key[:0], c.Request[:0], false
	c.Timeout, c.Metadata, c.Chain, c.Generation = 0, nil, nil, 0
	calls.Put(c)
}

// FreeReply gives a reply back that was received, to be used again with the space of its response: nobody reads it, or
// that, any more. What it refers to otherwise may be kept.
func FreeReply(r *objectspb.Reply) {
	if r == nil || cap(r.Response) > maxKept {
		return
	}
	r.Id, r.Response, r.More, r.Status = 0, r.Response[:0], false, nil
	r.Header, r.Trailer, r.Moved = nil, nil, 0
	replies.Put(r)
}

// Fits reports whether the space that n bytes are in is not much larger than they are. What waits for long is not to
// hold more than what it is counted as.
func Fits(space, n int) bool { return space <= 4*n+1024 }

// fit is empty space for n bytes: the one that is there, unless it is much too large.
func fit(space []byte, n int) []byte {
	if !Fits(cap(space), n) {
		return nil
	}
	return space[:0]
}

// names are methods that were called, so that their names are not made anew for each call.
type names map[string]string

// A peer may send what is no method, so what is kept is bounded.
const (
	maxNames      = 1024
	maxNameLength = 256
)

// of is the name that b is.
func (n names) of(b []byte) string {
	if name, ok := n[string(b)]; ok {
		return name
	}
	name := string(b)
	if len(n) < maxNames && len(name) <= maxNameLength {
		n[name] = name
	}
	return name
}
