package host

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Local is a call from this process.
type Local struct {
	Method     *Method
	Shard      int
	Key        string
	Generation int64
	Metadata   metadata.MD // nil: none
	Deadline   time.Time   // zero: none
	// Timeout is from when the call is queued, or its context asked for a deadline, for a call that has none; 0: none.
	Timeout time.Duration
	// Request is read, and Response written, until Invoke returns and not longer; both are messages of
	// protocol buffers, which the object does not see: it has copies. Response may be a [Taker].
	Request, Response any
	Peer              *peer.Peer // nil: this process
	// Given: nobody else uses Request any more, so what it consists of need not be copied.
	Given bool
	// Header and Trailer receive those of the reply.
	Header, Trailer metadata.MD
}

// Invoke makes a call from this process. It waits for its end, or that of ctx: the error is a gRPC status, or one
// for which [Moved] is true. Where ctx cannot end, the method runs in the caller's goroutine, which it
// takes along if it leaves it by runtime.Goexit. Values of ctx do not reach the object, but for the chain of turns.
func (h *Host) Invoke(ctx context.Context, l *Local) error {
	c := h.localCalls.Get().(*localCall)
	c.local, c.limit = *l, h.cfg.MaxMessage
	c.Method, c.Shard, c.Key, c.Generation = l.Method, l.Shard, l.Key, l.Generation
	c.Chain, c.Metadata, c.Deadline, c.Peer = ChainOf(ctx), l.Metadata, l.Deadline, l.Peer
	if c.timeout = 0; l.Deadline.IsZero() {
		c.timeout = l.Timeout
	}
	err := c.do(h, ctx)
	if c.left {
		return err // the method still runs, and uses the call
	}
	l.Header, l.Trailer = c.local.Header, c.local.Trailer
	if !c.Reusable(err) {
		return err
	}
	c.reset()
	h.localCalls.Put(c)
	return err
}

// reset makes the call ready to be used again. What the next use sets anyway stays.
func (c *localCall) reset() {
	c.ready, c.done, c.ctx = nil, nil, nil
	c.local.Header, c.local.Trailer = nil, nil
	c.local.Request, c.local.Response = nil, nil
}

// Taker receives a response of whatever type the object's service has. It must not keep it: the object may.
type Taker interface{ Take(response any) error }

// localCall is what the host needs for a Local.
type localCall struct {
	Call
	limit int // bytes of a message, as between nodes
	over  chan error
	ended func(error)

	mu    sync.Mutex // held while the caller's messages are read or written
	local Local
	left  bool // the caller has, and its messages are its own again
}

// newLocalCall makes one for the pool of a host.
func newLocalCall() any {
	c := &localCall{over: make(chan error, 1)}
	c.Decode, c.Reply, c.run = c.decode, c.reply, c.performed
	c.ended = func(err error) { c.over <- err }
	return c
}

// do makes the call.
func (c *localCall) do(h *Host, ctx context.Context) error {
	c.prepare(h, ctx)
	granted, err := h.enter(&c.waiter, c.Shard, c.Key, c.Generation)
	if err != nil {
		return err
	}
	if !granted {
		if err := h.awaitTurn(ctx, &c.Call); err != nil {
			return err
		}
	}
	if ctx.Done() == nil {
		return h.perform(&c.Call)
	}
	// In a goroutine of its own, so that the caller need not wait for a method that does not end when its context
	// does.
	c.done = c.ended
	c.begin()
	select {
	case err := <-c.over:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case err := <-c.over: // it has ended meanwhile
		return err
	default:
		c.left = true
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (c *localCall) decode(request any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return status.FromContextError(context.Canceled).Err()
	}
	return copyInto(request, c.local.Request, c.limit, c.local.Given)
}

func (c *localCall) reply(response any, header, trailer metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return nil
	}
	c.local.Header, c.local.Trailer = header, trailer
	if response == nil {
		return nil
	}
	if t, ok := c.local.Response.(Taker); ok {
		if err := checkSize(response, c.limit); err != nil {
			return err
		}
		return t.Take(response)
	}
	return copyInto(c.local.Response, response, c.limit, false)
}
