package link

import (
	"context"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/peer/budget"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Incoming is a call that has arrived completely. It must be answered by Reply, even after it was cancelled,
// and counts as held until then. Its methods may be called from any goroutine. Once Serve has returned and
// Reply was called, the Incoming may be reused for another call.
type Incoming struct {
	// Call is the call. Its key and its request must not be read after Reply; all other fields may be kept.
	Call *objectspb.Call
	// Scratch belongs to the handler. A value stored here before Reply may be present in a later call of the
	// same link, which comes when this one has ended. It may be a Freer.
	Scratch any

	l    *serverLink
	id   uint64
	cost int64

	// The link's lock protects the following fields.
	entry    entry // of the reply
	answered bool
	ended    bool // it was cancelled, or the link has ended
	onCancel func()
}

// Freer is a Scratch that is notified when its call has ended: the reply was sent and is no longer read. Freed
// should drop all that a later call does not need. It must not block or use the link.
type Freer interface{ Freed() }

// Context returns the context of the link's stream, with the caller's peer and the metadata of the stream. It
// ends with the link, not with the call.
func (c *Incoming) Context() context.Context { return c.l.ctx }

// Reply answers the call and sets the reply's Id. The link then owns the reply and all that it refers to. Reply
// does not wait for the network. It drops the reply if the caller has cancelled or the link has ended. Further
// replies are ignored.
func (c *Incoming) Reply(r *objectspb.Reply) {
	c.l.recordReply(c, c.l.server.checkReply(r))
}

// OnCancel registers f to be called once, when the caller cancels the call or the link ends before Reply. If
// that has already happened, OnCancel calls f at once. f must not block. A second call of OnCancel replaces f.
func (c *Incoming) OnCancel(f func()) {
	c.l.mu.Lock()
	ended := c.ended && !c.answered
	if !c.answered && !c.ended {
		c.onCancel = f
	}
	c.l.mu.Unlock()
	if ended {
		f()
	}
}

// endWait records that the caller no longer waits for the reply, and returns a function to be called without the
// lock, or nil. The caller of endWait holds the lock.
func (c *Incoming) endWait() func() {
	f := c.onCancel
	c.ended, c.onCancel = true, nil
	return f
}

// checkReply returns the reply, or an error in its place if the link could not carry it.
func (s *Server) checkReply(r *objectspb.Reply) *objectspb.Reply {
	if r == nil {
		r = &objectspb.Reply{}
	}
	if len(r.Response) > s.cfg.MaxMessage {
		return statusReply(codes.ResourceExhausted, fmt.Sprintf("link: the response has %d bytes and may have %d: "+
			"send less, or raise MaxMessage on both sides", len(r.Response), s.cfg.MaxMessage))
	}
	if extra := extraOfReply(r); extra > maxExtra {
		return statusReply(codes.ResourceExhausted,
			fmt.Sprintf("link: status and metadata of the reply have %d bytes and may "+
				"have %d: send less", extra, maxExtra))
	}
	if !validNames(r.Header) || !validNames(r.Trailer) {
		return statusReply(codes.Internal, "link: a name in the metadata of the reply is not valid UTF-8")
	}
	return r
}

// validNames reports whether all names can be sent.
func validNames(headers []*objectspb.Header) bool {
	for _, h := range headers {
		if !utf8.ValidString(h.GetName()) {
			return false
		}
	}
	return true
}

// fullStatus is [budget.ErrFull] in serialized form.
var fullStatus, _ = proto.Marshal(status.Convert(budget.ErrFull).Proto())

// statusReply returns a reply that contains only a status.
func statusReply(code codes.Code, message string) *objectspb.Reply {
	text, _ := proto.Marshal(status.New(code, message).Proto()) // cannot fail: all its strings are valid
	return &objectspb.Reply{Status: text}
}
