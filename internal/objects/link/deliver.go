package link

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// deliveredReply is a call that has ended, with its result.
type deliveredReply struct {
	w *outgoing
	result
}

// deliverReplies passes the replies of a message to their callers. space is for reuse. After an error the link must
// end.
func (l *link) deliverReplies(m *objectspb.LinkResponse, space []deliveredReply) ([]deliveredReply, error) {
	ended, err := l.matchReplies(m, space)
	for _, d := range ended {
		d.w.done <- d.result
	}
	return ended, err
}

// matchReplies finds the calls that end with a message, and forgets them.
func (l *link) matchReplies(m *objectspb.LinkResponse, ended []deliveredReply) ([]deliveredReply, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range m.Replies {
		w := l.outgoing[r.GetId()]
		if w == nil {
			wire.FreeReply(r)
			continue // it was cancelled or never existed
		}
		if w.begun == 0 || w.begun > l.written.Load() {
			return ended, misuseError(fmt.Errorf("a reply to call %d, which was not sent", r.Id))
		}
		res, done, err := w.addReply(r, l.peer.pool.cfg.MaxMessage)
		switch {
		case err != nil:
			return ended, err
		case !done:
			continue
		}
		if r.More || w.taken < len(w.payload) {
			l.cancels = append(l.cancels, w.id) // the rest, in either direction, is no longer needed
			l.wakeWriter()
		}
		switch {
		case len(w.payload) > partSize:
			l.unprovenUpTo = l.begun // the last parts may not have been read
		case w.begun > l.unprovenUpTo:
			l.unprovenUpTo = 0
		}
		l.forgetCall(w)
		ended = append(ended, deliveredReply{w, res})
	}
	return ended, nil
}

// addReply adds a reply or a part of one, and returns the result once it is complete. The caller holds the
// link's lock.
func (w *outgoing) addReply(r *objectspb.Reply, max int) (res result, done bool, err error) {
	switch {
	case len(w.parts)+len(r.Response) > max:
		err := status.Errorf(codes.ResourceExhausted, "link: the response has more than %d bytes: raise MaxMessage on both "+
			"sides, or ask for less", max)
		return result{err: err}, true, nil
	case r.More && len(r.Response) == 0:
		return result{}, false, misuseError(fmt.Errorf("an empty part of the reply to call %d", r.Id))
	case r.More:
		w.parts = appendPart(w.parts, r.Response, max)
		return result{}, false, nil
	case w.parts != nil:
		r.Response, w.parts = appendPart(w.parts, r.Response, max), nil
	}
	return result{reply: r}, true, nil
}
