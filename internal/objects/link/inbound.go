package link

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// inboundCalls holds the calls of one link on the called side: those in flight, and those that are incomplete. It is
// a plain value; its owner holds a lock.
type inboundCalls struct {
	prefix      string
	maxRequest  int // bytes of a request
	greeted     bool
	calls       map[uint64]*Incoming    // in flight: complete, neither answered nor cancelled
	partials    map[uint64]*partialCall // incomplete calls
	begun       uint64                  // calls of which the first part has arrived
	spare       []*Incoming             // for reuse
	lastArrived []*Incoming             // calls of the last message, for reuse of the slice

	// takeBytes counts bytes as held, and returns false if they are too many; giveBytes releases them.
	takeBytes func(n int64) bool
	giveBytes func(n int64)
}

// partialCall is an incomplete call.
type partialCall struct {
	call     *objectspb.Call
	refused  bool      // too large, or no longer held: its parts up to the last are dropped
	cost     int64     // bytes that it holds
	deadline time.Time // it is dropped then unless a further part arrives; zero if it holds none
}

// maxSpare limits the calls that are kept for reuse.
const maxSpare = 256

// takeSpare returns a call for use, with its earlier Scratch if it is reused.
func (in *inboundCalls) takeSpare() *Incoming {
	last := len(in.spare) - 1
	if last < 0 {
		return &Incoming{}
	}
	c := in.spare[last]
	in.spare[last], in.spare = nil, in.spare[:last]
	c.answered = false
	return c
}

// freeCall makes a call available to a later message. The call was answered, the answer was sent, and it was not
// cancelled. Until its reuse it still counts as answered.
func (in *inboundCalls) freeCall(c *Incoming) {
	wire.FreeCall(c.Call)
	if s, ok := c.Scratch.(Freer); ok {
		s.Freed()
	}
	// l is kept, because OnCancel reads it without the lock.
	c.Call, c.id, c.cost, c.entry, c.ended, c.onCancel = nil, 0, 0, entry{}, false, nil
	if len(in.spare) < maxSpare {
		in.spare = append(in.spare, c)
	} else {
		c.Scratch = nil
	}
}

// arrivedCalls holds the contents of a message, until the next one.
type arrivedCalls struct {
	calls     []*Incoming // complete
	refused   []uint64    // too large; must be answered at once
	full      []uint64    // refused by the budget; must be answered at once
	cancelled []*Incoming
}

func newInboundCalls(prefix string, max int) *inboundCalls {
	return &inboundCalls{prefix: prefix, maxRequest: max, calls: map[uint64]*Incoming{},
		partials:  map[uint64]*partialCall{},
		takeBytes: func(int64) bool { return true }, giveBytes: func(int64) {}}
}

// receiveMessage processes a message. After an error, which is a gRPC status, the link must end, and no part of the
// message may be handled.
func (in *inboundCalls) receiveMessage(m *objectspb.LinkRequest) (arrivedCalls, error) {
	if err := in.checkHello(m.Hello); err != nil {
		return arrivedCalls{}, err
	}
	if m.Hello == nil && len(m.Calls)+len(m.Cancelled) == 0 {
		return arrivedCalls{}, misuseError(errors.New("an empty message"))
	}
	begun := in.begun
	a := arrivedCalls{calls: in.lastArrived[:0]}
	for _, c := range m.Calls {
		complete, tooLarge, full, err := in.addCall(c)
		switch {
		case err != nil:
			in.begun = begun
			return arrivedCalls{}, misuseError(err)
		case tooLarge:
			a.refused = append(a.refused, c.Id)
		case full:
			a.full = append(a.full, c.Id)
		case complete != nil:
			call := in.takeSpare()
			call.Call, call.id, call.cost = complete, complete.Id, costOf(complete)
			in.calls[call.id] = call
			a.calls = append(a.calls, call)
		}
	}
	for _, id := range m.Cancelled {
		if c := in.calls[id]; c != nil {
			delete(in.calls, id)
			a.cancelled = append(a.cancelled, c)
		}
		if p := in.partials[id]; p != nil {
			in.dropPartial(p)
			delete(in.partials, id)
		}
	}
	in.lastArrived = a.calls
	return a, nil
}

// checkHello checks that the first message, and no other, has a Hello from the same cluster.
func (in *inboundCalls) checkHello(hello *objectspb.Hello) error {
	switch {
	case in.greeted && hello != nil:
		return misuseError(errors.New("a second Hello"))
	case in.greeted:
		return nil
	case hello == nil:
		return misuseError(errors.New("the first message has no Hello"))
	case hello.Prefix != in.prefix:
		return status.Errorf(codes.FailedPrecondition, "link: the caller belongs to the cluster with the prefix %q, "+
			"and this node to the one with %q: check the prefix and the address", hello.Prefix, in.prefix)
	}
	in.greeted = true
	return nil
}

// addCall adds a call or a part of one, and returns the call once it is complete. For a call that is too large, or
// refused by the budget, it reports that once.
func (in *inboundCalls) addCall(c *objectspb.Call) (complete *objectspb.Call, tooLarge, full bool, err error) {
	p := in.partials[c.GetId()]
	switch {
	case p != nil:
		return in.extendCall(p, c)
	case in.calls[c.GetId()] != nil:
		return nil, false, false, fmt.Errorf("call %d is in flight already", c.GetId())
	case c.GetMethod() == "":
		return nil, false, false, fmt.Errorf("call %d has no method, and no part of it came before", c.GetId())
	case c.More && len(c.Request) == 0:
		return nil, false, false, fmt.Errorf("an empty part of call %d", c.Id)
	case c.More && len(in.partials) >= recvParts:
		return nil, false, false, fmt.Errorf("more than %d calls in parts at a time", recvParts)
	}
	cost := costOf(c)
	if extra := cost - callOverhead - int64(len(c.Request)); extra > maxExtra {
		return nil, false, false, fmt.Errorf("call %d has %d bytes beside its request, and may have %d", c.Id, extra,
			maxExtra)
	}
	in.begun++
	tooLarge = len(c.Request) > in.maxRequest
	full = !tooLarge && !in.takeBytes(cost)
	switch {
	case c.More && (tooLarge || full):
		in.partials[c.Id] = &partialCall{refused: true}
	case c.More:
		p := &partialCall{call: c, cost: cost}
		p.recordPart()
		in.partials[c.Id] = p
	case !tooLarge && !full:
		complete = c
	}
	return complete, tooLarge, full, nil
}

// extendCall adds a further part of a call.
func (in *inboundCalls) extendCall(p *partialCall, c *objectspb.Call) (complete *objectspb.Call, tooLarge, full bool,
	err error) {
	switch {
	case c.Method != "" || len(c.Key)+len(c.Metadata)+len(c.Chain) > 0 || c.Timeout != 0 || c.Generation != 0:
		return nil, false, false, fmt.Errorf("call %d begins, and parts of it are missing", c.Id)
	case c.More && len(c.Request) == 0:
		return nil, false, false, fmt.Errorf("an empty part of call %d", c.Id)
	}
	if !c.More {
		delete(in.partials, c.Id)
	}
	switch {
	case p.refused:
		return nil, false, false, nil
	case len(p.call.Request)+len(c.Request) > in.maxRequest:
		in.dropPartial(p)
		return nil, true, false, nil
	}
	// Growth is reserved in the budget first, including the spare capacity.
	more := int64(capacityFor(p.call.Request, c.Request, in.maxRequest) - cap(p.call.Request))
	if more > 0 && !in.takeBytes(more) {
		in.dropPartial(p)
		return nil, false, true, nil
	}
	p.cost += max(0, more)
	p.call.Request = appendPart(p.call.Request, c.Request, in.maxRequest)
	if c.More {
		p.recordPart()
		return nil, false, false, nil
	}
	p.call.More = false
	in.giveBytes(p.cost - costOf(p.call)) // from here on it costs as much as any other call
	return p.call, false, false, nil
}

// recordPart records that a part has arrived, and sets the time limit for the next one.
func (p *partialCall) recordPart() { p.deadline = time.Now().Add(partIdle) }

// dropPartial releases the bytes of an incomplete call. Its further parts are ignored.
func (in *inboundCalls) dropPartial(p *partialCall) {
	in.giveBytes(p.cost)
	p.call, p.cost, p.refused, p.deadline = nil, 0, true, time.Time{}
}

// expirePartials drops the incomplete calls that have received no part for partIdle, and returns their ids.
func (in *inboundCalls) expirePartials(now time.Time) (late []uint64) {
	for id, p := range in.partials {
		if !p.deadline.IsZero() && now.After(p.deadline) {
			in.dropPartial(p)
			late = append(late, id)
		}
	}
	return late
}

// capacityFor returns the capacity of all after part is appended.
func capacityFor(all, part []byte, max int) int {
	if need := len(all) + len(part); need > cap(all) {
		return min(2*need, max)
	}
	return cap(all)
}

// appendPart appends a part to the earlier ones; together they have at most max bytes. It doubles the capacity as
// needed, to copy little.
func appendPart(all, part []byte, max int) []byte {
	if room := capacityFor(all, part, max); room > cap(all) {
		all = append(make([]byte, 0, room), all...)
	}
	return append(all, part...)
}

// costOf returns the approximate size of a call in memory, in bytes.
func costOf(c *objectspb.Call) int64 { return int64(len(c.Request) + extraOfCall(c) + callOverhead) }

// misuseError returns the status that ends a link if the peer does not follow the protocol.
func misuseError(err error) error {
	return status.Errorf(codes.InvalidArgument, "link: %v: check that both sides have the same version", err)
}
