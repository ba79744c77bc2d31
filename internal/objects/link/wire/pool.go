package wire

import (
	"sync"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// maxKept limits the space, in bytes, of a call or reply that is kept for reuse.
const maxKept = 64 << 10

var (
	callPool  = sync.Pool{New: func() any { return &objectspb.Call{} }}
	replyPool = sync.Pool{New: func() any { return &objectspb.Reply{} }}
)

// NewCall returns an empty call, possibly with reused space.
func NewCall() *objectspb.Call { return callPool.Get().(*objectspb.Call) }

func newReply() *objectspb.Reply { return replyPool.Get().(*objectspb.Reply) }

// FreeCall gives back a call that was received or made by NewCall, for reuse with the space of its key and its
// request. The caller must not read any of these afterwards. All else that the call refers to may be kept.
func FreeCall(c *objectspb.Call) {
	if c == nil || cap(c.Request)+cap(c.Key) > maxKept {
		return
	}
	c.Id, c.Method, c.Key, c.Request, c.More = 0, "", c.Key[:0], c.Request[:0], false
	c.Timeout, c.Metadata, c.Chain, c.Generation = 0, nil, nil, 0
	callPool.Put(c)
}

// FreeReply gives back a reply that was received, for reuse with the space of its response. The caller must not
// read either afterwards. All else that the reply refers to may be kept.
func FreeReply(r *objectspb.Reply) {
	if r == nil || cap(r.Response) > maxKept {
		return
	}
	r.Id, r.Response, r.More, r.Status = 0, r.Response[:0], false, nil
	r.Header, r.Trailer, r.Moved = nil, nil, 0
	replyPool.Put(r)
}

// FitsContent reports whether space is not much larger than its n bytes of content. A message that waits for long must
// not hold much more memory than is counted for it.
func FitsContent(space, n int) bool { return space <= 4*n+1024 }

// fitSpace returns empty space for n bytes: the given one, unless it is much too large.
func fitSpace(space []byte, n int) []byte {
	if !FitsContent(cap(space), n) {
		return nil
	}
	return space[:0]
}

// methodNames holds the names of methods that were called, to avoid allocating them for each call.
type methodNames map[string]string

// The names are limited, because a peer may send names of methods that do not exist. Those of a link take 32 KiB at
// most, which no budget counts.
const (
	maxNames      = 128
	maxNameLength = 256
)

// intern returns b as a string.
func (n methodNames) intern(b []byte) string {
	if name, ok := n[string(b)]; ok {
		return name
	}
	name := string(b)
	if len(n) < maxNames && len(name) <= maxNameLength {
		n[name] = name
	}
	return name
}
