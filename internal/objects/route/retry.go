package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/hosted"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Counters counts the calls that were made here.
type Counters struct {
	Local, Remote, Retried, Lost atomic.Int64
}

// Counters returns the router's counters.
func (r *Router) Counters() *Counters { return &r.counters }

// errRetry is returned for a call that was not started and must be sent again.
var errRetry = errors.New("the call was not started, and is to be sent anew")

// errNodeStops is the reason why no call waits any longer.
var errNodeStops = errors.New("this node stops")

// unreachableRetry is the pause before an unreachable node is tried again, unless the map names another node
// before.
var unreachableRetry = backoff.Policy{First: 10 * time.Millisecond, Last: 500 * time.Millisecond}

// namedMapRetry is the wait for a map that an owner has reported, before the owner is asked again. The report
// applies to one call only, and an older map may have replaced the reported one meanwhile.
var namedMapRetry = backoff.Policy{First: 2 * time.Second, Last: 10 * time.Second}

// callAttempt is a call in progress.
type callAttempt struct {
	router      *Router
	call        *host.Call
	askedFormer int64 // of the map by which the shard's former owner was asked; 0 if none was
	mayHaveRun  bool  // an attempt may have run; only idempotent calls are repeated then
	pause       backoff.Backoff
	out         *objectspb.Call // the call with its request, once serialized
}

// newAttempt returns a call that was not sent yet, with the chain and the deadline of ctx.
func (r *Router) newAttempt(ctx context.Context, c *host.Call) callAttempt {
	c.Chain = host.ChainOf(ctx)
	if r.cfg.Services != nil {
		c.Method = r.cfg.Services.Method(c.Name)
	}
	a := callAttempt{router: r, call: c}
	a.setDeadline(ctx)
	return a
}

// setDeadline sets the call's deadline: that of ctx, or the default.
func (a *callAttempt) setDeadline(ctx context.Context) {
	a.call.Deadline = host.Deadline{Timeout: a.router.cfg.CallTimeout}
	if at, bounded := ctx.Deadline(); bounded {
		a.call.Deadline = host.Deadline{At: at}
	}
}

// send sends the call to the present place of its object. It returns errRetry if the call must be sent again.
func (a *callAttempt) send(ctx context.Context) error {
	r := a.router
	n, known := r.cfg.Map.Shard(a.call.Key)
	if !known {
		return a.awaitRetry(ctx, SeenOwner{}, nil)
	}
	a.call.Shard = n
	owner, generation := r.cfg.Map.Owner(n)
	switch former := a.askFormer(owner, generation); {
	case r.cfg.Host != nil && r.cfg.Host.MustRunHere(n, a.call.Chain):
		return a.callLocal(ctx, generation)
	case former != "":
		a.askedFormer = generation
		return a.callRemote(ctx, former, generation)
	case r.cfg.Host != nil && owner == r.cfg.Self:
		return a.callLocal(ctx, generation)
	case owner == "":
		return a.awaitRetry(ctx, SeenOwner{owner, generation, 0}, nil)
	}
	return a.callRemote(ctx, owner, generation)
}

// askFormer returns the node to which a call must be sent before the owner, or "" if there is none. The node
// that has yet to release the shard may be waiting for that very call, if one of its turns made the call
// indirectly. It is asked once for each map.
func (a *callAttempt) askFormer(owner string, generation int64) string {
	r := a.router
	if len(a.call.Chain) == 0 || a.askedFormer == generation {
		return ""
	}
	if former := r.cfg.Map.Former(a.call.Shard); former != owner && former != r.cfg.Self {
		return former
	}
	return ""
}

// callLocal makes the call on this node.
func (a *callAttempt) callLocal(ctx context.Context, generation int64) error {
	c := a.call
	if c.Method == nil || c.Method.Unary == nil {
		return UnimplementedError(a.router.cfg.Services, c.Name, a.router.cfg.Self)
	}
	a.router.counters.Local.Add(1)
	c.Generation = generation
	err := a.router.cfg.Host.Invoke(ctx, c)
	if host.IsMoved(err) { // even by the same map this node is asked again, like any other
		return a.awaitRetry(ctx, SeenOwner{a.router.cfg.Self, generation, max(1, generation)}, nil)
	}
	if a.mayRepeat(err) {
		a.mayHaveRun = true
		return a.awaitRetry(ctx, SeenOwner{a.router.cfg.Self, generation, 0}, err)
	}
	return err
}

// UnimplementedError returns the error for a method that the node at that address does not host.
func UnimplementedError(services *host.Services, method, address string) error {
	service, _, ok := splitMethod(method)
	switch {
	case !ok || services != nil && services.Has(service):
		return hosted.Error(codes.Unimplemented, objects.ReasonBadCall,
			fmt.Sprintf("objects: unknown method %s, or it is called as another kind of method than it is", method))
	case address == "":
		return hosted.Error(codes.Unimplemented, objects.ReasonBadCall,
			fmt.Sprintf("objects: service %s is not registered on this node, which takes no part in the shards", service))
	}
	return hosted.Error(codes.Unimplemented, objects.ReasonBadCall, fmt.Sprintf("objects: service %s is not registered "+
		"on the node %s, which owns the object's shard: register it there, too, or keep that node out of the shards "+
		"(Sharding.Off, goversed node --sharding off) or under another prefix", service, address))
}

// callRemote makes the call on another node.
func (a *callAttempt) callRemote(ctx context.Context, owner string, generation int64) error {
	c := a.call
	if a.out == nil {
		if err := a.serializeCall(); err != nil {
			return err
		}
	}
	a.out.Generation = generation
	a.router.counters.Remote.Add(1)
	reply, err := a.router.cfg.Pool.CallBy(ctx, a.call.Deadline.Time(), owner, a.out)
	switch {
	case err == nil:
		return a.handleReply(ctx, reply, owner, generation)
	case errors.Is(err, link.ErrNotSent):
		return a.awaitRetry(ctx, SeenOwner{owner, generation, 0}, err)
	case errors.Is(err, link.ErrRefused):
		return hosted.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: "+err.Error())
	case errors.Is(err, link.ErrClosed):
		return hosted.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
			"objects: the call may have run: its caller's process has closed the connections between nodes")
	case errors.Is(err, link.ErrLost):
		a.router.counters.Lost.Add(1)
		if a.isIdempotent() {
			a.mayHaveRun = true
			return a.awaitRetry(ctx, SeenOwner{owner, generation, 0}, err)
		}
		return hosted.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
			"objects: the call may have run: "+err.Error())
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.Errorf(status.FromContextError(err).Code(),
		"objects: the call may have run: no reply from %s to %s of %q (%v)", owner, c.Name, c.Key, err)
}

// isIdempotent reports whether the call may be made again although it may have run.
func (a *callAttempt) isIdempotent() bool {
	return a.call.Method != nil && a.call.Method.Idempotent || a.router.cfg.Idempotent[a.call.Name]
}

// mayRepeat reports whether err means that the call may have run, and the method may run again.
func (a *callAttempt) mayRepeat(err error) bool {
	return err != nil && a.isIdempotent() && objects.ReasonOf(err) == objects.ReasonMayHaveStarted
}

// finalError returns the error of the call, given that of its last attempt. Only the last attempt has certainly not
// started if an earlier one may have run.
func (a *callAttempt) finalError(err error) error {
	if !a.mayHaveRun || !objects.NotStarted(err) {
		return err
	}
	text := "objects: the call may have run, and was sent anew: " + status.Convert(err).Message()
	switch code := status.Code(err); code {
	case codes.DeadlineExceeded, codes.Canceled:
		return status.Error(code, text)
	}
	return hosted.Error(codes.Unavailable, objects.ReasonMayHaveStarted, text)
}

// serializeCall prepares the call that is sent to other nodes.
func (a *callAttempt) serializeCall() (err error) {
	c := a.call
	if _, _, ok := splitMethod(c.Name); !ok {
		return UnimplementedError(nil, c.Name, "")
	}
	out := wire.NewCall()
	if out.Request, err = host.AppendMarshal(out.Request, c.Request); err != nil {
		return err
	}
	if n := len(out.Request); !wire.FitsContent(cap(out.Request), n) {
		out.Request = bytes.Clone(out.Request)
	}
	out.Method, out.Key = c.Name, append(out.Key, c.Key...)
	out.Metadata, out.Chain = ToHeaders(c.Metadata), c.Chain
	a.out = out
	return nil
}

// handleReply ends a call to which a node has replied, or waits for the map that the reply names.
func (a *callAttempt) handleReply(ctx context.Context, reply *objectspb.Reply, owner string, generation int64) error {
	if reply.GetMoved() > 0 {
		return a.awaitRetry(ctx, SeenOwner{owner, generation, reply.GetMoved()}, nil)
	}
	a.call.Header, a.call.Trailer = FromHeaders(reply.GetHeader()), FromHeaders(reply.GetTrailer())
	if len(reply.GetStatus()) > 0 {
		var s spb.Status
		if err := proto.Unmarshal(reply.GetStatus(), &s); err != nil {
			return status.Errorf(codes.Internal, "objects: %s sent a status that cannot be read: %v", owner, err)
		}
		err := status.ErrorProto(&s)
		if a.mayRepeat(err) {
			a.mayHaveRun = true
			return a.awaitRetry(ctx, SeenOwner{owner, generation, 0}, err)
		}
		return err
	}
	if t, ok := a.call.Response.(host.Taker); ok {
		return t.Take(host.Raw(reply.GetResponse()))
	}
	err := host.Unmarshal(reply.GetResponse(), a.call.Response)
	wire.FreeReply(reply)
	return err
}

// awaitRetry blocks until the call should be sent again, and returns errRetry; or it returns the error of a call
// that was not started in time. It waits until the map has changed since seen. If the owner could not be
// reached, or knows a later map than this process, the wait also ends when it is time to try that owner again.
func (a *callAttempt) awaitRetry(ctx context.Context, seen SeenOwner, unreachable error) error {
	limit, again := a.call.Deadline.Time(), false
	switch {
	case unreachable != nil:
		a.pause.Policy, again = unreachableRetry, true
	case seen.Named > seen.Generation:
		a.pause.Policy, again = namedMapRetry, true
	case seen.Named > 0: // its map is delayed, or of another history
		a.pause.Policy, again = unreachableRetry, true
	}
	// The former owner of a shard may be waiting for a call of Deactivated, and this process for the former
	// owner.
	ending := host.AwaitedByDeactivated(a.call.Chain)
	if ending {
		limit, again = time.Now(), false
	}
	if again {
		if at := time.Now().Add(a.pause.Next()); at.Before(limit) {
			limit = at
		}
	}
	waiting, cancel := context.WithDeadline(ctx, limit)
	release := a.router.endWaits(a.call.Outside, cancel)
	err := a.router.cfg.Map.AwaitChange(waiting, a.call.Shard, seen)
	release()
	cancel()
	if err == nil || again && a.router.mayWait(a.call.Outside) == nil && a.checkTime(ctx) == nil &&
		errors.Is(err, context.DeadlineExceeded) {
		return errRetry
	}
	what := "no node owns the shard of the object"
	if seen.Owner != "" {
		what = "the object's node is " + seen.Owner + ", which does not serve its shard now"
	}
	if unreachable != nil {
		what = unreachable.Error()
	}
	if ending && ctx.Err() == nil {
		return hosted.Error(codes.Unavailable, objects.ReasonNotStarted,
			"objects: the call was not started: "+what+" (a call by Deactivated does not wait for that)")
	}
	return a.notStartedError(ctx, what, err)
}

// checkTime returns nil while the call can still be made in time, otherwise the reason why not.
func (a *callAttempt) checkTime(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !time.Now().Before(a.call.Deadline.Time()) {
		return context.DeadlineExceeded
	}
	return nil
}

// notStartedError returns the error for a call that was not started because of err.
func (a *callAttempt) notStartedError(ctx context.Context, what string, err error) error {
	code := codes.Unavailable
	if stops := a.router.mayWait(a.call.Outside); stops != nil && ctx.Err() == nil {
		err = stops
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		code = status.FromContextError(context.DeadlineExceeded).Code()
		if errors.Is(ctx.Err(), context.Canceled) {
			code = codes.Canceled
		}
	}
	return hosted.Error(code, objects.ReasonNotStarted,
		fmt.Sprintf("objects: the call was not started: %s (%v)", what, err))
}
