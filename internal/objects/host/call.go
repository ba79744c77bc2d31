package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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
	"github.com/goverse/goverse/internal/objects/hosted"
)

// Call is one call of an object, from its caller, or the link or stream that brought it, to the method. Before the
// call the exported fields are set, except Header and Trailer. The zero value is ready for use. A call that has ended
// may be used for another one after [Call.Reset].
type Call struct {
	Name     string // the full name of the method, "/package.Service/Method"; only the router needs it
	Key      string
	Metadata metadata.MD // nil means none
	// Request is a message, or a *[Raw]. It is read, and Response is written, only until the call has ended or Invoke
	// has returned. The object receives a copy of a message.
	Request any
	// Response is a message to be filled, or a [Taker].
	Response any
	// Header and Trailer receive the metadata of the reply.
	Header, Trailer metadata.MD
	// RequestOwned reports that no other goroutine uses Request any more, so its contents need not be copied.
	RequestOwned bool
	// Outside reports that the caller is not a node and can call another node. If this node may have an
	// outdated map, the router does not wait for it to learn the owner of the object.
	Outside bool

	Method     *Method // nil if this process does not host it
	Shard      int
	Generation int64    // of the map by which this node was chosen; 0 means any
	Chain      []uint64 // the turns that wait for the call
	Deadline   Deadline
	Peer       *peer.Peer // nil means this process

	turn    turn
	ctx     *turnContext
	limit   int                     // bytes of a message, as between nodes; 0 means none
	done    func(error)             // receives the call's error; nil if a goroutine waits on outcome
	outcome chan error              // receives nil when the call has its turn, then its error
	run     func()                  // runTurn
	decode  func(request any) error // copyRequest

	stream        grpc.ServerStream
	dropped       chan struct{} // of a stream: closed when its object is dropped
	awaitedByTurn bool          // of a stream: a turn in its shard waits for it, so the shard does, too

	mu        sync.Mutex // held while the caller's messages are read or written
	abandoned bool
}

// Raw is a message in serialized form.
type Raw []byte

// Taker receives the response of a call: a message of the type that the object's service uses, or a [Raw]. It must
// not retain a message, because the object may.
type Taker interface{ Take(response any) error }

// Abandoned reports whether Invoke has returned before the method. The call is then still in use, and must not be
// reset.
func (c *Call) Abandoned() bool { return c.abandoned }

// Reset prepares a call that has ended for another one. It drops all references.
func (c *Call) Reset() { *c = Call{run: c.run, decode: c.decode, outcome: c.outcome} }

// prepareTurn sets the fields that a call needs to take its turn.
func (c *Call) prepareTurn(h *Host, caller context.Context) {
	if c.run == nil {
		c.run, c.decode = c.runTurn, c.copyRequest
	}
	c.Header, c.Trailer = nil, nil
	s := &h.shards[c.Shard]
	c.turn = turn{method: c.Method, chain: c.Chain, generation: c.Generation, owner: c, home: s}
	c.ctx = &turnContext{shard: s, chain: c.Chain, caller: caller, deadline: c.Deadline, call: c}
}

// takeTurn blocks until the call has its turn, but not beyond its deadline or the end of ctx.
func (c *Call) takeTurn(ctx context.Context, h *Host) error {
	if c.outcome == nil {
		c.outcome = make(chan error, 1)
	}
	c.prepareTurn(h, ctx)
	begun, err := c.turn.requestTurn(c.Key)
	if err != nil || begun {
		return err
	}
	return c.awaitTurn(ctx)
}

// resolveTurn implements resolver.
func (c *Call) resolveTurn(err error) {
	if err == nil && c.done != nil {
		c.startTurn()
	} else {
		c.finishCall(err)
	}
}

// finishCall passes on the outcome of the call. The call may be reset and used again from then on.
func (c *Call) finishCall(err error) {
	if c.done != nil {
		c.done(err)
	} else {
		c.outcome <- err
	}
}

// startTurn performs a call that has its turn, in a goroutine of its own.
func (c *Call) startTurn() {
	if !c.turn.home.host.workers.run(c.run) {
		go func() { // because the caller may hold the shard's lock
			c.turn.finishTurn(nil)
			c.finishCall(errMoved)
		}()
	}
}

// runTurn performs the call and passes on its error.
func (c *Call) runTurn() {
	err := errMethodExited
	defer func() { c.finishCall(err) }()
	err = c.performCall()
}

// errMethodExited is returned for a method that left its goroutine by runtime.Goexit.
var errMethodExited = status.Error(codes.Internal, "the method did not return")

// copyRequest fills the request that is passed to the method.
func (c *Call) copyRequest(request any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abandoned {
		return errCancelled
	}
	if raw, ok := c.Request.(*Raw); ok {
		return Unmarshal(*raw, request)
	}
	return copyInto(request, c.Request, c.limit, c.RequestOwned)
}

// copyReply copies the metadata of the reply, and the response unless that is nil. It is called before the turn ends,
// so the object cannot change the response after the call has ended.
func (c *Call) copyReply(response any) error {
	header, trailer := c.ctx.replyMetadata()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abandoned {
		return nil
	}
	c.Header, c.Trailer = header, trailer
	if response == nil {
		return nil
	}
	if t, ok := c.Response.(Taker); ok {
		if err := checkSize(response, c.limit); err != nil {
			return err
		}
		return t.Take(response)
	}
	return copyInto(c.Response, response, c.limit, false)
}

// Invoke makes a call from this process and waits until it or ctx ends. The error is a gRPC status, or one for
// which [IsMoved] is true. Once the method runs, the deadline of the call ends the method's context, and only ctx ends
// the wait for a method that ignores that. If ctx cannot end, the method runs in the caller's goroutine, and a method
// that calls runtime.Goexit ends that goroutine. No value of ctx reaches the object.
func (h *Host) Invoke(ctx context.Context, c *Call) error {
	c.limit = h.cfg.MaxMessage
	if err := c.takeTurn(ctx, h); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return c.performCall()
	}
	// A goroutine of its own lets the caller return before a method that ignores the end of its context.
	c.startTurn()
	select {
	case err := <-c.outcome:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case err := <-c.outcome: // it has ended meanwhile
		return err
	default:
		c.abandoned = true
		return status.FromContextError(ctx.Err()).Err()
	}
}

// ServeCall starts a call that came from elsewhere. It does not block. It calls done once, with the error of the
// call: nil, a gRPC status, or an error for which [IsMoved] is true. done must not block. CancelCall may be called once
// ServeCall has returned. The size of the messages is not limited.
func (h *Host) ServeCall(c *Call, done func(error)) {
	c.prepareTurn(h, nil)
	c.done = done
	begun, err := c.turn.requestTurn(c.Key)
	switch {
	case err != nil:
		done(err)
	case begun:
		c.startTurn()
	}
}

var errCancelled = status.FromContextError(context.Canceled).Err()

// CancelCall ends a call that ServeCall has started and that no caller waits for any longer. It returns true if the
// call was not started and will not be. done is not called then.
func (h *Host) CancelCall(c *Call) (notStarted bool) {
	if c.turn.abandonTurn() {
		c.Method.countRefused(errCancelled)
		return true
	}
	c.ctx.endEarly(context.Canceled)
	return false
}

// awaitTurn blocks until a queued call has its turn, but not beyond its deadline or the end of ctx.
func (c *Call) awaitTurn(ctx context.Context) error {
	c.Deadline.At, _ = c.ctx.Deadline()
	c.Deadline.Timeout = 0
	var over <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded && !c.Deadline.At.IsZero() {
		timer := time.NewTimer(time.Until(c.Deadline.At))
		defer timer.Stop()
		over = timer.C
	}
	var late error
	select {
	case err := <-c.outcome:
		return err
	case <-over:
		late = context.DeadlineExceeded
	case <-ctx.Done():
		late = ctx.Err()
	}
	if !c.turn.abandonTurn() {
		if err := <-c.outcome; err != nil {
			return err
		}
		c.turn.finishTurn(nil)
	}
	err := hosted.Error(status.FromContextError(late).Code(), objects.ReasonNotStarted,
		"objects: "+c.Method.service.name+" "+quotedKey(c.Key)+": the call was waiting for its turn: "+late.Error())
	c.Method.countRefused(err)
	return err
}

// sampleEvery is the number of calls of which one is timed.
const sampleEvery = 8

// performCall runs the method of a call that has its turn, and ends the turn. The error is a gRPC status.
func (c *Call) performCall() (err error) {
	returned := false
	defer func() {
		if !returned {
			err = c.handlePanic(recover())
			c.Method.outcomes.count(c.Shard, codes.Internal)
		}
		c.ctx.endTurn()
		c.turn.finishTurn(c.ctx)
	}()
	c.ctx.turn = c.turn.id
	// Reading the clock takes a tenth of the time of a call in memory.
	var began time.Time
	sampled := c.turn.id%sampleEvery == 0
	if sampled {
		began = time.Now()
	}
	if c.stream == nil {
		err = c.performUnary()
	} else {
		err = c.performStream()
	}
	returned = true
	c.Method.outcomes.count(c.Shard, status.Code(err))
	if sampled {
		c.Method.service.metrics.latency.Observe(time.Since(began))
	}
	return err
}

// performUnary runs a unary method.
func (c *Call) performUnary() error {
	response, err := c.Method.Unary.Handler(c.turn.object.impl, c.ctx, c.decode, c.turn.home.host.cfg.Unary)
	switch {
	case err != nil:
		err = c.errorForCaller(err)
	case !c.holdsShard():
		err = errFormerOwner
	default:
		return c.copyReply(response)
	}
	_ = c.copyReply(nil)
	return err
}

// errorForCaller returns a method's error as its caller gets it.
func (c *Call) errorForCaller(err error) error {
	return asStatus(c.turn.home.host.failures.errorForCaller(c.Method.Name, c.Key, err))
}

// errFormerOwner is returned if the session by which the node held the shard ended before the method returned.
// Another activation may have answered other calls since then, of which this one knew nothing.
var errFormerOwner = hosted.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
	"objects: the call may have run: its node lost the object's shard meanwhile")

// holdsShard reports whether the node still holds the shard under the epoch of the call's object. Only then is the
// method's result that of the only activation.
func (c *Call) holdsShard() bool {
	return c.turn.home.host.cfg.Shards.Holds(c.Shard, c.turn.object.epoch)
}

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
func (c *Call) handlePanic(p any) error {
	o := c.turn.object
	o.home.host.failures.reportPanic(o, "a call panicked; its object is dropped", p, "method", c.Method.Name)
	o.dropActivation(objects.Failed)
	return hosted.Error(codes.Internal, objects.ReasonPanic, "objects: "+o.displayName()+
		": the method panicked; see the log of its node")
}
