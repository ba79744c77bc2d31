package link

import (
	"context"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/budget"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Incoming is a call that has arrived in whole. It waits for its Reply, also after it was cancelled: until then it
// counts as held. Its methods may be called from any goroutine; after Serve has returned and Reply was called, it may
// be used for another call.
type Incoming struct {
	// Call is the call. Its key and its request must not be read after Reply; all else may be kept.
	Call *objectspb.Call
	// Scratch is the handler's: what it stores here before Reply it may find in a later call, which is of the same
	// link and comes when this one has ended. It may be a Freer.
	Scratch any

	l    *serverLink
	id   uint64
	cost int64

	// With the link's lock:
	entry    entry // of the reply
	answered bool
	ended    bool // it was cancelled, or the link has ended
	onCancel func()
}

// Freer is a Scratch that is notified when its call has ended: the reply was sent, and is not read any more. What a
// later call has no use for is to be dropped then. Freed must not block, or use the link.
type Freer interface{ Freed() }

// Context is that of the link's stream, with the caller's peer and the metadata of the stream. It ends with the
// link, not with the call.
func (c *Incoming) Context() context.Context { return c.l.ctx }

// Reply answers the call; its Id is set here. The reply belongs to the link then, with all it refers to. Reply does
// not wait for the network. Where the caller has cancelled or the link has ended, the reply is dropped. Replies
// after the first are ignored.
func (c *Incoming) Reply(r *objectspb.Reply) {
	c.l.reply(c, c.l.s.checked(r))
}

// OnCancel has f called, once, when the caller cancels the call or the link ends before Reply; at once if that
// was before. f must not block. A second call of OnCancel replaces f.
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

// end takes note that nobody waits for the reply, and returns what is to be called without the lock. The lock
// is held.
func (c *Incoming) end() func() {
	f := c.onCancel
	c.ended, c.onCancel = true, nil
	return f
}

// checked is the reply, or an error in its place where the link could not carry it.
func (s *Server) checked(r *objectspb.Reply) *objectspb.Reply {
	if r == nil {
		r = &objectspb.Reply{}
	}
	if len(r.Response) > s.cfg.MaxMessage {
		return failure(codes.ResourceExhausted, fmt.Sprintf("link: the response has %d bytes and may have %d: "+
			"send less, or raise MaxMessage on both sides", len(r.Response), s.cfg.MaxMessage))
	}
	if extra := extraOfReply(r); extra > maxExtra {
		return failure(codes.ResourceExhausted, fmt.Sprintf("link: status and metadata of the reply have %d bytes and may "+
			"have %d: send less", extra, maxExtra))
	}
	if !validNames(r.Header) || !validNames(r.Trailer) {
		return failure(codes.Internal, "link: a name in the metadata of the reply is not valid UTF-8")
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

// fullStatus is [budget.ErrFull] as it travels.
var fullStatus, _ = proto.Marshal(status.Convert(budget.ErrFull).Proto())

// failure is a reply that says only that the call failed.
func failure(code codes.Code, message string) *objectspb.Reply {
	text, _ := proto.Marshal(status.New(code, message).Proto()) // which has no fields that can be invalid
	return &objectspb.Reply{Status: text}
}
