package host

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// LocalCall describes a call from this process.
type LocalCall struct {
	Method     *Method
	Shard      int
	Key        string
	Generation int64
	Metadata   metadata.MD // nil means none
	Deadline   time.Time   // zero means none
	// Timeout bounds a call without a Deadline. It begins when the call is queued, or when its context is first
	// asked for a deadline. 0 means none.
	Timeout time.Duration
	// Request is read, and Response written, only until Invoke returns. Both are protocol buffer messages. The
	// object receives copies. Response may be a [Taker].
	Request, Response any
	Peer              *peer.Peer // nil means this process
	// RequestOwned reports that no other goroutine uses Request any more, so its contents need not be copied.
	RequestOwned bool
	// Header and Trailer receive the metadata of the reply.
	Header, Trailer metadata.MD
}

// Invoke makes a call from this process and waits until it or ctx ends. The error is a gRPC status, or one for
// which [IsMoved] is true. If ctx cannot end, the method runs in the caller's goroutine, and a method that calls
// runtime.Goexit ends that goroutine. Of the values of ctx only the chain of turns reaches the object.
func (h *Host) Invoke(ctx context.Context, l *LocalCall) error {
	c := h.localCalls.Get().(*localState)
	c.local, c.limit = *l, h.cfg.MaxMessage
	c.Method, c.Shard, c.Key, c.Generation = l.Method, l.Shard, l.Key, l.Generation
	c.Chain, c.Metadata, c.Deadline, c.Peer = ChainOf(ctx), l.Metadata, l.Deadline, l.Peer
	if c.timeout = 0; l.Deadline.IsZero() {
		c.timeout = l.Timeout
	}
	err := c.makeCall(h, ctx)
	if c.callerLeft {
		return err // the method still runs and uses the call
	}
	l.Header, l.Trailer = c.local.Header, c.local.Trailer
	if !c.Reusable(err) {
		return err
	}
	c.reset()
	h.localCalls.Put(c)
	return err
}

// reset prepares the call for reuse. Fields that the next use sets anyway remain.
func (c *localState) reset() {
	c.ready, c.done, c.ctx = nil, nil, nil
	c.local.Header, c.local.Trailer = nil, nil
	c.local.Request, c.local.Response = nil, nil
}

// Taker receives a response of the type that the object's service uses. It must not retain the response,
// because the object may.
type Taker interface{ Take(response any) error }

// localState holds the state of a Local while the host runs it.
type localState struct {
	Call
	limit  int // bytes of a message, as between nodes
	result chan error
	onEnd  func(error)

	mu         sync.Mutex // held while the caller's messages are read or written
	local      LocalCall
	callerLeft bool // the caller has returned, and its messages belong to it again
}

// newLocalState returns a new localState for a host's pool.
func newLocalState() any {
	c := &localState{result: make(chan error, 1)}
	c.Decode, c.Reply, c.run = c.copyRequest, c.copyResponse, c.runTurn
	c.onEnd = func(err error) { c.result <- err }
	return c
}

// makeCall makes the call.
func (c *localState) makeCall(h *Host, ctx context.Context) error {
	c.prepareTurn(h, ctx)
	granted, err := h.requestTurn(&c.waiter, c.Shard, c.Key, c.Generation)
	if err != nil {
		return err
	}
	if !granted {
		if err := h.awaitTurn(ctx, &c.Call); err != nil {
			return err
		}
	}
	if ctx.Done() == nil {
		return h.performCall(&c.Call)
	}
	// A goroutine of its own lets the caller return before a method that ignores the end of its context.
	c.done = c.onEnd
	c.startTurn()
	select {
	case err := <-c.result:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case err := <-c.result: // it has ended meanwhile
		return err
	default:
		c.callerLeft = true
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (c *localState) copyRequest(request any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.callerLeft {
		return status.FromContextError(context.Canceled).Err()
	}
	return copyInto(request, c.local.Request, c.limit, c.local.RequestOwned)
}

func (c *localState) copyResponse(response any, header, trailer metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.callerLeft {
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
