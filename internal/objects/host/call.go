package host

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// Call is one unary or streaming call to an object of this node.
type Call struct {
	Method     *Method
	Shard      int
	Key        string
	Generation int64 // of the map by which this node was chosen; 0 means any
	Chain      []uint64
	Metadata   metadata.MD
	Deadline   time.Time // zero means none
	Peer       *peer.Peer

	// Decode fills the request that is passed to the method.
	Decode func(request any) error
	// Reply receives the method's response. It is called before the turn ends, so the object cannot change the
	// response after the call has ended. It may be called after the caller has stopped waiting.
	Reply func(response any, header, trailer metadata.MD) error

	waiter        waiter
	timeout       time.Duration // sets Deadline when one is first needed; 0 if Deadline is set, or there is none
	headers       replyHeaders
	ready         chan error  // created when the call is queued and a caller waits in its own goroutine
	done          func(error) // nil if a caller waits in its own goroutine
	run           func()      // the function that begin runs
	stream        grpc.ServerStream
	dropped       chan struct{} // of a stream: closed when its object is dropped
	awaitedByTurn bool          // of a stream: a turn in its shard waits for it, so the shard does, too
	ctx           *turnContext
}

// Reusable reports whether a call that ended with err may be reused, because nothing refers to it any more.
func (c *Call) Reusable(err error) bool {
	// After errMoved another goroutine may still end the turn. A requested context may outlive the call. A
	// queued call of Deactivated has a timer that refers to its waiter.
	return !IsMoved(err) && !c.ctx.hasFull() && !AwaitedByDeactivated(c.Chain)
}

// ClearReferences drops the references of a call that is [Call.Reusable], until its next use.
func (c *Call) ClearReferences() {
	c.waiter, c.ctx = waiter{}, nil
	c.Key, c.Chain, c.Metadata, c.Peer = "", nil, nil, nil
}

// prepareTurn sets the fields that a call needs to take its turn.
func (c *Call) prepareTurn(h *Host, caller context.Context) {
	c.waiter.method, c.waiter.chain, c.waiter.owner = c.Method, c.Chain, c
	c.headers.method = c.Method
	c.ctx = &turnContext{host: h, shard: c.Shard, chain: c.Chain, caller: caller, deadline: c.Deadline,
		timeout: c.timeout, call: c}
}

// beforeWait implements resolver.
func (c *Call) beforeWait() {
	if c.done == nil {
		c.ready = make(chan error, 1)
		c.Deadline, _ = c.ctx.Deadline()
	}
}

// resolve implements resolver.
func (c *Call) resolve(err error) {
	switch {
	case c.done == nil:
		c.ready <- err
	case err != nil:
		c.done(err)
	default:
		c.startTurn()
	}
}

// startTurn performs a call that has its turn, in a goroutine of its own.
func (c *Call) startTurn() {
	if c.run == nil {
		c.run = c.runTurn
	}
	if !c.ctx.host.spawn(c.run) {
		c.ctx.host.dropTurn(&c.waiter)
		c.done(errMoved)
	}
}

// runTurn performs the call and passes its error to done.
func (c *Call) runTurn() {
	err := errMethodExited
	defer func() { c.done(err) }()
	err = c.ctx.host.performCall(c)
}

// errMethodExited is returned for a method that left its goroutine by runtime.Goexit.
var errMethodExited = status.Error(codes.Internal, "the method did not return")

// ServeCall starts a call that came from elsewhere. It does not block. It calls done once, with the error of the
// call: nil, a gRPC status, or an error for which [IsMoved] is true. done must not block. Cancel may be called once
// Serve has returned.
func (h *Host) ServeCall(c *Call, done func(error)) {
	c.prepareTurn(h, nil)
	c.done = done
	granted, err := h.requestTurn(&c.waiter, c.Shard, c.Key, c.Generation)
	switch {
	case err != nil:
		done(err)
	case granted:
		c.startTurn()
	}
}

var errCancelled = status.FromContextError(context.Canceled).Err()

// CancelCall ends a call that Serve has started and that no caller waits for any longer. It returns true if the
// call was not started and will not be. done is not called then.
func (h *Host) CancelCall(c *Call) (notStarted bool) {
	if h.abandonWaiter(&c.waiter) {
		c.Method.countRefused(errCancelled)
		return true
	}
	c.ctx.endEarly(context.Canceled)
	return false
}

// awaitTurn waits until a queued call has its turn, but not beyond its deadline or the end of ctx.
func (h *Host) awaitTurn(ctx context.Context, c *Call) error {
	var over <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded && !c.Deadline.IsZero() {
		timer := time.NewTimer(time.Until(c.Deadline))
		defer timer.Stop()
		over = timer.C
	}
	var late error
	select {
	case err := <-c.ready:
		return err
	case <-over:
		late = context.DeadlineExceeded
	case <-ctx.Done():
		late = ctx.Err()
	}
	if !h.abandonWaiter(&c.waiter) {
		if err := <-c.ready; err != nil {
			return err
		}
		h.finishTurn(&c.waiter, nil)
	}
	err := objects.Error(status.FromContextError(late).Code(), objects.ReasonNotStarted,
		"objects: "+c.Method.service.name+" "+quotedKey(c.Key)+": the call was waiting for its turn: "+late.Error())
	c.Method.countRefused(err)
	return err
}

// sampleEvery is the number of calls of which one is timed.
const sampleEvery = 8

// performCall runs the method of a call that has its turn, and ends the turn. The error is a gRPC status.
func (h *Host) performCall(c *Call) (err error) {
	o := c.waiter.object
	returned := false
	defer func() {
		if !returned {
			err = h.handlePanic(c, recover())
			c.Method.outcomes.count(c.Shard, codes.Internal)
		}
		c.ctx.endTurn()
		h.finishTurn(&c.waiter, c.ctx)
	}()
	c.ctx.turn = c.waiter.turn
	// Reading the clock takes a tenth of the time of a call in memory.
	var began time.Time
	sampled := c.waiter.turn%sampleEvery == 0
	if sampled {
		began = time.Now()
	}
	if c.stream == nil {
		err = h.performUnary(c)
	} else {
		err = h.performStream(c)
	}
	returned = true
	c.Method.outcomes.count(c.Shard, status.Code(err))
	if sampled {
		o.service.metrics.latency.observe(time.Since(began))
	}
	return err
}

// performUnary runs a unary method.
func (h *Host) performUnary(c *Call) error {
	response, err := c.Method.Unary.Handler(c.waiter.object.impl, c.ctx, c.Decode, h.cfg.Unary)
	var header, trailer metadata.MD
	if c.ctx.hasFull() { // otherwise the method cannot have set them
		header, trailer = c.headers.collected()
	}
	if err == nil && !h.holdsShard(c) {
		_ = c.Reply(nil, header, trailer)
		return errFormerOwner
	}
	if err != nil {
		_ = c.Reply(nil, header, trailer)
		return asStatus(h.errorForCaller(c.Method.Name, c.Key, err))
	}
	return c.Reply(response, header, trailer)
}

// errFormerOwner is returned if the session by which the node held the shard ended before the method returned.
// Another activation may have answered other calls since then, of which this one knew nothing.
var errFormerOwner = objects.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
	"objects: the call may have run: its node lost the object's shard meanwhile")

// holdsShard reports whether the node still holds the shard under the epoch of the call's object. Only then is the
// method's result that of the only activation.
func (h *Host) holdsShard(c *Call) bool { return h.cfg.Shards.Holds(c.Shard, c.waiter.object.epoch) }

// asStatus returns a method's error as gRPC's server sends it. A method may return the error of a call that it
// made itself. asStatus removes the ErrorInfo of that call, because it does not apply to the method's own call.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	if strings.ContainsRune(s.Message(), '\n') { // joined errors, and some errors of the network
		p := s.Proto()
		p.Message = logtext.OneLine(errors.New(p.Message))
		s = status.FromProto(p)
	}
	if objects.ReasonOf(s.Err()) == "" {
		return s.Err()
	}
	p := s.Proto() // a copy
	p.Details = slices.DeleteFunc(p.Details, func(detail *anypb.Any) bool {
		var info errdetails.ErrorInfo
		return detail.UnmarshalTo(&info) == nil && info.GetDomain() == objects.Domain
	})
	return status.ErrorProto(p)
}

// handlePanic drops the object of a call that panicked or left its goroutine.
func (h *Host) handlePanic(c *Call, p any) error {
	o := c.waiter.object
	o.service.metrics.panics.Add(1)
	if h.panicLimiter.Allow() { // because a client can repeat a call that panics; the metrics count all
		h.cfg.Logger.Error("a call panicked; its object is dropped", "method", c.Method.Name, "key", loggedKey(c.Key),
			"panic", p, "stack", string(debug.Stack()))
	}
	h.dropLater(o, objects.Failed)
	return objects.Error(codes.Internal, objects.ReasonPanic, "objects: "+o.displayName()+
		": the method panicked; see the log of its node")
}
