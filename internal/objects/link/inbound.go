package link

import (
	"errors"
	"fmt"
	"slices"

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
}

// partial is a call of which parts are missing.
type partial struct {
	call    *objectspb.Call
	refused bool // it is too large: what comes is dropped, up to the last part
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
	cancelled []*Incoming
}

func newInbound(prefix string, max int) *inbound {
	return &inbound{prefix: prefix, max: max, calls: map[uint64]*Incoming{}, open: map[uint64]*partial{}}
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
		complete, tooLarge, err := in.add(c)
		switch {
		case err != nil:
			in.begun = begun
			return arrived{}, misuse(err)
		case tooLarge:
			a.refused = append(a.refused, c.Id)
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
		delete(in.open, id)
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

// add takes in a call or a part of one, and returns the call once it is complete. Of one that is too large it says so
// once.
func (in *inbound) add(c *objectspb.Call) (complete *objectspb.Call, tooLarge bool, err error) {
	p := in.open[c.GetId()]
	switch {
	case p != nil:
		return in.extend(p, c)
	case in.calls[c.GetId()] != nil:
		return nil, false, fmt.Errorf("call %d is in flight already", c.GetId())
	case c.GetMethod() == "":
		return nil, false, fmt.Errorf("call %d has no method, and no part of it came before", c.GetId())
	case c.More && len(c.Request) == 0:
		return nil, false, fmt.Errorf("an empty part of call %d", c.Id)
	case c.More && len(in.open) >= recvParts:
		return nil, false, fmt.Errorf("more than %d calls in parts at a time", recvParts)
	}
	in.begun++
	tooLarge = len(c.Request) > in.max
	switch {
	case c.More && tooLarge:
		in.open[c.Id] = &partial{refused: true}
	case c.More:
		in.open[c.Id] = &partial{call: c}
	case !tooLarge:
		complete = c
	}
	return complete, tooLarge, nil
}

// extend takes in a further part of a call.
func (in *inbound) extend(p *partial, c *objectspb.Call) (complete *objectspb.Call, tooLarge bool, err error) {
	switch {
	case c.Method != "" || len(c.Key)+len(c.Metadata)+len(c.Chain) > 0 || c.Timeout != 0 || c.Generation != 0:
		return nil, false, fmt.Errorf("call %d begins, and parts of it are missing", c.Id)
	case c.More && len(c.Request) == 0:
		return nil, false, fmt.Errorf("an empty part of call %d", c.Id)
	}
	if !c.More {
		delete(in.open, c.Id)
	}
	switch {
	case p.refused:
		return nil, false, nil
	case len(p.call.Request)+len(c.Request) > in.max:
		p.refused, p.call = true, nil
		return nil, true, nil
	}
	p.call.Request = extend(p.call.Request, c.Request, in.max)
	if c.More {
		return nil, false, nil
	}
	p.call.More = false
	return p.call, false, nil
}

// extend appends a part to those before it, of max bytes at most all together. It copies little more often than needed.
func extend(all, part []byte, max int) []byte {
	if need := len(all) + len(part); need > cap(all) {
		all = slices.Grow(all, min(2*need, max)-len(all))
	}
	return append(all, part...)
}

// costOf is about how many bytes a call takes in memory.
func costOf(c *objectspb.Call) int64 { return int64(len(c.Request) + extraOfCall(c) + callOverhead) }

// misuse is the status that ends a link whose peer does not follow the protocol.
func misuse(err error) error {
	return status.Errorf(codes.InvalidArgument, "link: %v: check that both sides have the same version", err)
}
