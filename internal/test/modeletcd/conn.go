package modeletcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Delivery is what becomes of one request. Whatever its sender is answered meanwhile, a request arrives
// once, after Out, unless it gets lost.
type Delivery struct {
	// Out is how long it takes to arrive, Back how long its answer does.
	Out, Back time.Duration
	// Lost: it never arrives. Unanswered: its answer does not.
	Lost, Unanswered bool
	// Broken, if it is not 0, is when the connection breaks: the sender is notified that etcd is
	// unavailable.
	Broken time.Duration
	// Refused, if set, is etcd's answer, and the request is not carried out. Instead, if set, is the answer though it
	// is.
	Refused, Instead error
	// CarriedOut and Answered, if set, are called when etcd has carried the request out, and when its sender
	// gets the answer, which is one of etcd's protocol (*pb.TxnResponse and so on). They must not block,
	// nor call this package.
	CarriedOut, Answered func(answer any, err error)
}

// Conn is one client's way to etcd. All methods are safe for concurrent use.
type Conn struct {
	// Name is for reading what went on.
	Name string

	e        *Etcd
	to       func() int // the member that the next request goes to
	delivery func(request any) Delivery
	held     bool
	waiting  []func() // with the lock held, when nothing is held up any more
	watches  []*watch
	frozen   bool
	proxied  bool

	stillborn bool // the next watch
}

// Connect makes a connection. delivery is asked for every request, which is one of etcd's protocol
// (*pb.TxnRequest and so on), when it is sent; for every opening of a watch, and for what a watch
// tells (*pb.WatchResponse), of which Back alone counts. It must not block, nor call this package.
func (e *Etcd) Connect(name string, delivery func(request any) Delivery) *Conn {
	return e.ConnectTo(func() int { return 0 }, name, delivery)
}

// ConnectTo is Connect for an etcd of several members: to says to which member the next request goes,
// watch or stream of renewals is opened.
func (e *Etcd) ConnectTo(to func() int, name string, delivery func(request any) Delivery) *Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Conn{Name: name, e: e, to: to, delivery: delivery}
	e.conns = append(e.conns, c)
	return c
}

// Hold keeps everything that is on its way, either way, where it is until it is called with
// false: as where the network is cut, or the process stands still.
func (c *Conn) Hold(on bool) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.held = on
	if on {
		return
	}
	waiting := c.waiting
	c.waiting = nil
	for _, pass := range waiting {
		pass()
	}
	c.tell()
}

// Proxied has the watches report no progress, as through etcd grpc-proxy, or again.
func (c *Conn) Proxied(on bool) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.proxied = on
}

// pass has something go on when nothing is held up. The lock is held.
func (c *Conn) pass(on func()) {
	if c.held {
		c.waiting = append(c.waiting, on)
	} else {
		on()
	}
}

// after has something done after d, with the lock held, or when nothing is held up.
func (c *Conn) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		c.e.mu.Lock()
		defer c.e.mu.Unlock()
		c.pass(do)
	})
}

// errUnavailable is what etcd's client says of a connection that broke.
var errUnavailable = status.Error(codes.Unavailable, "the connection broke")

// call sends a request that a majority must agree to and waits for its answer, for as long as ctx lasts.
func call[T interface{ GetHeader() *pb.ResponseHeader }](ctx context.Context, c *Conn, request any,
	execute func() (T, error)) (T, error) {
	m := c.e.members[c.to()]
	return ask(ctx, c, m, request, func(answer func(T, error)) {
		c.e.consent(m, func() {
			resp, err := carryOut(c.e, c, execute)
			if err == nil {
				resp.GetHeader().RaftTerm = m.term
			}
			answer(resp, err)
		})
	})
}

// ask sends a request to a member and waits for its answer, for as long as ctx lasts. The member carries it
// out with the lock held, and answers then or later.
func ask[T any](ctx context.Context, c *Conn, m *member, request any, carryOut func(answer func(T, error))) (T, error) {
	type answer struct {
		resp T
		err  error
	}
	var none T
	if ctx.Err() != nil {
		return none, status.FromContextError(ctx.Err()).Err()
	}
	delivery := c.delivery(request)
	answers := make(chan answer, 2)
	if delivery.Broken > 0 {
		time.AfterFunc(delivery.Broken, func() { answers <- answer{err: errUnavailable} })
	}
	back := func(resp T, err error) {
		if delivery.CarriedOut != nil {
			delivery.CarriedOut(resp, err)
		}
		if delivery.Unanswered {
			return
		}
		if delivery.Instead != nil {
			resp, err = none, delivery.Instead
		}
		c.after(delivery.Back, func() {
			if delivery.Answered != nil && ctx.Err() == nil {
				delivery.Answered(resp, err)
			}
			answers <- answer{resp, err}
		})
	}
	if !delivery.Lost {
		c.after(delivery.Out, func() {
			c.e.arrive(m, func() {
				if delivery.Refused != nil {
					back(none, delivery.Refused)
				} else {
					carryOut(back)
				}
			})
		})
	}
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-ctx.Done():
		return none, status.FromContextError(ctx.Err()).Err()
	}
}

// Denied is etcd's refusal by access control, for Delivery.
var Denied = rpctypes.ErrGRPCPermissionDenied
