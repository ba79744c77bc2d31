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

// inbound is what a server knows of the calls on one link: those in flight, and those of which parts are missing. It
// is a plain value; its owner has the lock.
type inbound struct {
	prefix  string
	max     int // bytes of a request
	greeted bool
	calls   map[uint64]*Incoming // in flight: complete, neither answered nor cancelled
	open    map[uint64]*partial  // parts are missing
	begun   uint64               // calls whose first part has come
	spare   []*Incoming          // to be used again
	space   []*Incoming          // of the last arrived

	// take has bytes held, and reports false where they are too many; give takes them back.
	takeBytes func(n int64) bool
	giveBytes func(n int64)
}

// partial is a call of which parts are missing.
type partial struct {
	call    *objectspb.Call
	refused bool      // it is too large, or is held no longer: what comes is dropped, up to the last part
	cost    int64     // bytes that it holds
	ends    time.Time // when it is held no longer, unless a further part comes; zero: it holds nothing
}

// maxSpare is how many calls are kept to be used again.
const maxSpare = 256

// take is a call to be used, with the Scratch that it had before.
func (in *inbound) take() *Incoming {
	last := len(in.spare) - 1
	if last < 0 {
		return &Incoming{}
	}
	c := in.spare[last]
	in.spare[last], in.spare = nil, in.spare[:last]
	c.answered = false
	return c
}

// free has a call used again by a later message: it was answered, the answer was sent, and it was not cancelled. Until
// then it still says that it was answered.
func (in *inbound) free(c *Incoming) {
	wire.FreeCall(c.Call)
	if s, ok := c.Scratch.(Freer); ok {
		s.Freed()
	}
	// l stays as it is, for OnCancel reads it without the lock.
	c.Call, c.id, c.cost, c.entry, c.ended, c.onCancel = nil, 0, 0, entry{}, false, nil
	if len(in.spare) < maxSpare {
		in.spare = append(in.spare, c)
	} else {
		c.Scratch = nil
	}
}

// arrived is what a message has brought, until the next one.
type arrived struct {
	calls     []*Incoming // complete
	refused   []uint64    // too large: to be answered at once
	full      []uint64    // too much is held: to be answered at once
	cancelled []*Incoming
}

func newInbound(prefix string, max int) *inbound {
	return &inbound{prefix: prefix, max: max, calls: map[uint64]*Incoming{}, open: map[uint64]*partial{},
		takeBytes: func(int64) bool { return true }, giveBytes: func(int64) {}}
}

// receive takes in a message. After an error, which is a gRPC status, the link is to end, and nothing of the
// message is to be handled.
func (in *inbound) receive(m *objectspb.LinkRequest) (arrived, error) {
	if err := in.greet(m.Hello); err != nil {
		return arrived{}, err
	}
	if m.Hello == nil && len(m.Calls)+len(m.Cancelled) == 0 {
		return arrived{}, misuse(errors.New("an empty message"))
	}
	begun := in.begun
	a := arrived{calls: in.space[:0]}
	for _, c := range m.Calls {
		complete, tooLarge, full, err := in.add(c)
		switch {
		case err != nil:
			in.begun = begun
			return arrived{}, misuse(err)
		case tooLarge:
			a.refused = append(a.refused, c.Id)
		case full:
			a.full = append(a.full, c.Id)
		case complete != nil:
			call := in.take()
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
		if p := in.open[id]; p != nil {
			in.drop(p)
			delete(in.open, id)
		}
	}
	in.space = a.calls
	return a, nil
}

// greet checks that the first message, and no other, has a Hello, and from the same cluster.
func (in *inbound) greet(hello *objectspb.Hello) error {
	switch {
	case in.greeted && hello != nil:
		return misuse(errors.New("a second Hello"))
	case in.greeted:
		return nil
	case hello == nil:
		return misuse(errors.New("the first message has no Hello"))
	case hello.Prefix != in.prefix:
		return status.Errorf(codes.FailedPrecondition, "link: the caller belongs to the cluster with the prefix %q, "+
			"and this node to the one with %q: check the prefix and the address", hello.Prefix, in.prefix)
	}
	in.greeted = true
	return nil
}

// add takes in a call or a part of one, and returns the call once it is complete. Of one that is too large, or for
// which too much is held, it says so once.
func (in *inbound) add(c *objectspb.Call) (complete *objectspb.Call, tooLarge, full bool, err error) {
	p := in.open[c.GetId()]
	switch {
	case p != nil:
		return in.extend(p, c)
	case in.calls[c.GetId()] != nil:
		return nil, false, false, fmt.Errorf("call %d is in flight already", c.GetId())
	case c.GetMethod() == "":
		return nil, false, false, fmt.Errorf("call %d has no method, and no part of it came before", c.GetId())
	case c.More && len(c.Request) == 0:
		return nil, false, false, fmt.Errorf("an empty part of call %d", c.Id)
	case c.More && len(in.open) >= recvParts:
		return nil, false, false, fmt.Errorf("more than %d calls in parts at a time", recvParts)
	}
	cost := costOf(c)
	if extra := cost - callOverhead - int64(len(c.Request)); extra > maxExtra {
		return nil, false, false, fmt.Errorf("call %d has %d bytes beside its request, and may have %d", c.Id, extra,
			maxExtra)
	}
	in.begun++
	tooLarge = len(c.Request) > in.max
	full = !tooLarge && !in.takeBytes(cost)
	switch {
	case c.More && (tooLarge || full):
		in.open[c.Id] = &partial{refused: true}
	case c.More:
		p := &partial{call: c, cost: cost}
		p.progress()
		in.open[c.Id] = p
	case !tooLarge && !full:
		complete = c
	}
	return complete, tooLarge, full, nil
}

// extend takes in a further part of a call.
func (in *inbound) extend(p *partial, c *objectspb.Call) (complete *objectspb.Call, tooLarge, full bool, err error) {
	switch {
	case c.Method != "" || len(c.Key)+len(c.Metadata)+len(c.Chain) > 0 || c.Timeout != 0 || c.Generation != 0:
		return nil, false, false, fmt.Errorf("call %d begins, and parts of it are missing", c.Id)
	case c.More && len(c.Request) == 0:
		return nil, false, false, fmt.Errorf("an empty part of call %d", c.Id)
	}
	if !c.More {
		delete(in.open, c.Id)
	}
	switch {
	case p.refused:
		return nil, false, false, nil
	case len(p.call.Request)+len(c.Request) > in.max:
		in.drop(p)
		return nil, true, false, nil
	}
	// What grows is reserved before, with what it is reserved for next.
	more := int64(roomFor(p.call.Request, c.Request, in.max) - cap(p.call.Request))
	if more > 0 && !in.takeBytes(more) {
		in.drop(p)
		return nil, false, true, nil
	}
	p.cost += max(0, more)
	p.call.Request = extend(p.call.Request, c.Request, in.max)
	if c.More {
		p.progress()
		return nil, false, false, nil
	}
	p.call.More = false
	in.giveBytes(p.cost - costOf(p.call)) // from here on it costs what a call does
	return p.call, false, false, nil
}

// progress: a part has come, and there is some time for the next one.
func (p *partial) progress() { p.ends = time.Now().Add(partIdle) }

// drop gives back what a call holds of which parts are missing. Further ones are passed over.
func (in *inbound) drop(p *partial) {
	in.giveBytes(p.cost)
	p.call, p.cost, p.refused, p.ends = nil, 0, true, time.Time{}
}

// expire drops the calls of which no part has come for long, and returns them.
func (in *inbound) expire(now time.Time) (late []uint64) {
	for id, p := range in.open {
		if !p.ends.IsZero() && now.After(p.ends) {
			in.drop(p)
			late = append(late, id)
		}
	}
	return late
}

// roomFor is the capacity that all has when part is appended to it.
func roomFor(all, part []byte, max int) int {
	if need := len(all) + len(part); need > cap(all) {
		return min(2*need, max)
	}
	return cap(all)
}

// extend appends a part to those before it, of max bytes at most all together. It copies little more often than needed.
func extend(all, part []byte, max int) []byte {
	if room := roomFor(all, part, max); room > cap(all) {
		all = append(make([]byte, 0, room), all...)
	}
	return append(all, part...)
}

// costOf is about how many bytes a call takes in memory.
func costOf(c *objectspb.Call) int64 { return int64(len(c.Request) + extraOfCall(c) + callOverhead) }

// misuse is the status that ends a link whose peer does not follow the protocol.
func misuse(err error) error {
	return status.Errorf(codes.InvalidArgument, "link: %v: check that both sides have the same version", err)
}
