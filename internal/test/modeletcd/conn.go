package modeletcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Delivery describes the delivery of one request and its answer. Unless the request is lost, it arrives once,
// after Out, even if its sender has already got an error.
type Delivery struct {
	// Out is the time until the request arrives, Back the time until its answer does.
	Out, Back time.Duration
	// Lost drops the request, Unanswered drops its answer.
	Lost, Unanswered bool
	// Broken, if not 0, is the time until the connection breaks. The sender then gets an error: etcd is
	// unavailable.
	Broken time.Duration
	// Refused, if set, is etcd's answer, and the request is not executed. Instead, if set, replaces the answer
	// to an executed request.
	Refused, Instead error
	// CarriedOut, if set, is called when etcd has executed the request; Answered, when its sender gets the
	// answer. answer is a message of etcd's protocol (*pb.TxnResponse and so on). The functions must not block,
	// nor call this package.
	CarriedOut, Answered func(answer any, err error)
}

// Conn is the connection of one client to etcd. All methods are safe for concurrent use.
type Conn struct {
	// Name identifies the connection in logs.
	Name string

	etcd       *Etcd
	nextMember func() int // returns the member for the next request
	delivery   func(request any) Delivery
	held       bool
	waiting    []func() // called with the lock held after SetHeld(false)
	watches    []*watch
	frozen     bool
	proxied    bool

	stillborn bool // the next watch to be opened delivers nothing
}

// Connect creates a connection. delivery is called for every request when it is sent, with a message of etcd's
// protocol (*pb.TxnRequest and so on). It is also called when a watch is opened, and for every response of a
// watch (*pb.WatchResponse), of which only Back applies. It must not block, nor call this package.
func (e *Etcd) Connect(name string, delivery func(request any) Delivery) *Conn {
	return e.ConnectTo(func() int { return 0 }, name, delivery)
}

// ConnectTo is Connect for an etcd of several members. to returns the member for the next request, watch or
// stream of renewals.
func (e *Etcd) ConnectTo(to func() int, name string, delivery func(request any) Delivery) *Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &Conn{Name: name, etcd: e, nextMember: to, delivery: delivery}
	e.conns = append(e.conns, c)
	return c
}

// SetHeld stops everything under way in both directions until SetHeld(false), as when the network is cut or the
// process stands still.
func (c *Conn) SetHeld(on bool) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	c.held = on
	if on {
		return
	}
	waiting := c.waiting
	c.waiting = nil
	for _, pass := range waiting {
		pass()
	}
	c.sendEvents()
}

// SetProxied controls whether the watches report no progress, as through etcd grpc-proxy.
func (c *Conn) SetProxied(on bool) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	c.proxied = on
}

// runUnlessHeld calls on now, or after SetHeld(false). The caller holds the lock.
func (c *Conn) runUnlessHeld(on func()) {
	if c.held {
		c.waiting = append(c.waiting, on)
	} else {
		on()
	}
}

// runAfter calls do with the lock held, after d or, if that is later, after SetHeld(false).
func (c *Conn) runAfter(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		c.etcd.mu.Lock()
		defer c.etcd.mu.Unlock()
		c.runUnlessHeld(do)
	})
}

// errUnavailable is the error that etcd's client returns when its connection breaks.
var errUnavailable = status.Error(codes.Unavailable, "the connection broke")

// askMajority sends a request that needs the consent of a majority, and waits for the answer until ctx ends.
func askMajority[T interface{ GetHeader() *pb.ResponseHeader }](ctx context.Context, c *Conn, request any,
	execute func() (T, error)) (T, error) {
	m := c.etcd.members[c.nextMember()]
	return askMember(ctx, c, m, request, func(answer func(T, error)) {
		c.etcd.runWithMajority(m, func() {
			resp, err := executeRequest(c.etcd, c, execute)
			if err == nil {
				resp.GetHeader().RaftTerm = m.term
			}
			answer(resp, err)
		})
	})
}

// askMember sends a request to a member and waits for the answer until ctx ends. The member executes it with the lock
// held, and answers then or later.
func askMember[T any](ctx context.Context, c *Conn, m *member, request any, carryOut func(answer func(T, error))) (T,
	error) {
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
		c.runAfter(delivery.Back, func() {
			if delivery.Answered != nil && ctx.Err() == nil {
				delivery.Answered(resp, err)
			}
			answers <- answer{resp, err}
		})
	}
	if !delivery.Lost {
		c.runAfter(delivery.Out, func() {
			c.etcd.deliverToMember(m, func() {
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

// Denied is the error of etcd's access control, for use in a Delivery.
var Denied = rpctypes.ErrGRPCPermissionDenied
