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
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Figures are what is counted of calls that were made here.
type Figures struct {
	Local, Remote, Retried, Lost atomic.Int64
}

// Figures are the router's.
func (r *Router) Figures() *Figures { return &r.figures }

// errAgain: the call was not started, and is to be sent anew.
var errAgain = errors.New("the call was not started, and is to be sent anew")

// errStops is why nothing is waited for any longer.
var errStops = errors.New("this node stops")

// unreachableAgain is how long to wait before a node is tried again that could not be reached, unless the map
// names another one before.
var unreachableAgain = backoff.Policy{First: 10 * time.Millisecond, Last: 500 * time.Millisecond}

// namedAgain is how long to wait for a map of which an owner knows before that owner is asked again: what it said is of
// that one call, and of a map that may have been replaced by an older one meanwhile.
var namedAgain = backoff.Policy{First: 2 * time.Second, Last: 10 * time.Second}

// attempt is a call on its way.
type attempt struct {
	router   *Router
	call     Call
	method   *host.Method // nil: not registered in this process
	deadline time.Time    // zero: the default one, which is computed when it is needed
	shard    int
	former   int64 // of the map by which the shard's former owner was asked; 0: none was
	pause    backoff.Backoff
	out      *objectspb.Call // the call with its request, once it was serialized
}

// by is the deadline. That of a call which begins at once on this node is not needed, and reading the clock would
// take a tenth of it.
func (a *attempt) by() time.Time {
	if a.deadline.IsZero() {
		a.deadline = time.Now().Add(a.router.cfg.CallTimeout)
	}
	return a.deadline
}

// once sends the call to where its object is now; errAgain says that it is to be sent anew.
func (a *attempt) once(ctx context.Context) error {
	r := a.router
	n, known := r.cfg.Map.Shard(a.call.Key)
	if !known {
		return a.await(ctx, Seen{}, nil)
	}
	a.shard = n
	owner, generation := r.cfg.Map.Owner(n)
	chain := host.ChainOf(ctx)
	switch former := a.askFormer(chain, owner, generation); {
	case r.cfg.Host != nil && r.cfg.Host.Inside(n, chain):
		return a.here(ctx, generation)
	case former != "":
		a.former = generation
		return a.there(ctx, former, generation)
	case r.cfg.Host != nil && owner == r.cfg.Self:
		return a.here(ctx, generation)
	case owner == "":
		return a.await(ctx, Seen{owner, generation, 0}, nil)
	}
	return a.there(ctx, owner, generation)
}

// askFormer is the node that a call is to be sent to before the owner, "" if it is not: the one that is yet to release
// the shard to the owner may wait for that very call, which is made by what one of its turns has called. By each map it
// is asked once.
func (a *attempt) askFormer(chain []uint64, owner string, generation int64) string {
	r := a.router
	if len(chain) == 0 || a.former == generation {
		return ""
	}
	if former := r.cfg.Map.Former(a.shard); former != owner && former != r.cfg.Self {
		return former
	}
	return ""
}

// here makes the call on this node.
func (a *attempt) here(ctx context.Context, generation int64) error {
	c := &a.call
	if a.method == nil || a.method.Unary == nil {
		return Unimplemented(a.router.cfg.Services, c.Method, a.router.cfg.Self)
	}
	a.router.figures.Local.Add(1)
	l := host.Local{Method: a.method, Shard: a.shard, Key: c.Key, Generation: generation, Metadata: c.Metadata,
		Deadline: a.deadline, Timeout: a.router.cfg.CallTimeout, Request: c.Request, Response: c.Response,
		Given: c.Given && !a.idempotent()} // a further time it needs its request again
	err := a.router.cfg.Host.Invoke(ctx, &l)
	if host.Moved(err) { // by the same map this node is asked again, as another one would be
		return a.await(ctx, Seen{a.router.cfg.Self, generation, max(1, generation)}, nil)
	}
	if a.mayRepeat(err) {
		return a.await(ctx, Seen{a.router.cfg.Self, generation, 0}, err)
	}
	c.Header, c.Trailer = l.Header, l.Trailer
	return err
}

// Unimplemented is the error for a method that is not hosted on the node at an address.
func Unimplemented(services *host.Services, method, address string) error {
	service, _, ok := cutMethod(method)
	switch {
	case !ok || services != nil && services.Has(service):
		return objects.Error(codes.Unimplemented, objects.ReasonBadCall,
			fmt.Sprintf("objects: unknown method %s, or it is called as another kind of method than it is", method))
	case address == "":
		return objects.Error(codes.Unimplemented, objects.ReasonBadCall,
			fmt.Sprintf("objects: service %s is not registered on this node, which takes no part in the shards", service))
	}
	return objects.Error(codes.Unimplemented, objects.ReasonBadCall, fmt.Sprintf("objects: service %s is not registered "+
		"on the node %s, which owns the object's shard: register it there, too, or keep that node out of the shards "+
		"(Sharding.Off, goversed node --sharding off) or under another prefix", service, address))
}

// there makes the call on another node.
func (a *attempt) there(ctx context.Context, owner string, generation int64) error {
	c := &a.call
	if a.out == nil {
		if err := a.serialize(ctx); err != nil {
			return err
		}
	}
	a.out.Generation = generation
	a.router.figures.Remote.Add(1)
	reply, err := a.router.cfg.Pool.CallBy(ctx, a.by(), owner, a.out)
	switch {
	case err == nil:
		return a.answered(ctx, reply, owner, generation)
	case errors.Is(err, link.ErrNotSent):
		return a.await(ctx, Seen{owner, generation, 0}, err)
	case errors.Is(err, link.ErrRefused):
		return objects.Error(codes.Unavailable, objects.ReasonNotStarted, "objects: "+err.Error())
	case errors.Is(err, link.ErrClosed):
		return objects.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
			"objects: the call may have run: its caller's process has closed the connections between nodes")
	case errors.Is(err, link.ErrLost):
		a.router.figures.Lost.Add(1)
		if a.idempotent() {
			return a.await(ctx, Seen{owner, generation, 0}, err)
		}
		return objects.Error(codes.Unavailable, objects.ReasonMayHaveStarted,
			"objects: the call may have run: "+err.Error())
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.Errorf(status.FromContextError(err).Code(),
		"objects: the call may have run: no reply from %s to %s of %q (%v)", owner, c.Method, c.Key, err)
}

// idempotent reports whether the call may be made again although it may have run.
func (a *attempt) idempotent() bool {
	return a.method != nil && a.method.Idempotent || a.router.cfg.Idempotent[a.call.Method]
}

// mayRepeat reports whether the object's node says that the call may have run, and it may run again.
func (a *attempt) mayRepeat(err error) bool {
	return err != nil && a.idempotent() && objects.ReasonOf(err) == objects.ReasonMayHaveStarted
}

// serialize makes the call that is sent to another node.
func (a *attempt) serialize(ctx context.Context) (err error) {
	c := &a.call
	if _, _, ok := cutMethod(c.Method); !ok {
		return Unimplemented(nil, c.Method, "")
	}
	out := wire.NewCall()
	if out.Request, err = host.AppendMarshal(out.Request, c.Request); err != nil {
		return err
	}
	if n := len(out.Request); !wire.Fits(cap(out.Request), n) {
		out.Request = bytes.Clone(out.Request)
	}
	out.Method, out.Key = c.Method, append(out.Key, c.Key...)
	out.Metadata, out.Chain = ToHeaders(c.Metadata), host.ChainOf(ctx)
	a.out = out
	return nil
}

// answered is the end of a call that a node has replied to.
func (a *attempt) answered(ctx context.Context, reply *objectspb.Reply, owner string, generation int64) error {
	if reply.GetMoved() > 0 {
		return a.await(ctx, Seen{owner, generation, reply.GetMoved()}, nil)
	}
	a.call.Header, a.call.Trailer = FromHeaders(reply.GetHeader()), FromHeaders(reply.GetTrailer())
	if len(reply.GetStatus()) > 0 {
		var s spb.Status
		if err := proto.Unmarshal(reply.GetStatus(), &s); err != nil {
			return status.Errorf(codes.Internal, "objects: %s sent a status that cannot be read: %v", owner, err)
		}
		err := status.ErrorProto(&s)
		if a.mayRepeat(err) {
			return a.await(ctx, Seen{owner, generation, 0}, err)
		}
		return err
	}
	if t, ok := a.call.Response.(Taker); ok {
		return t.TakeRaw(reply.GetResponse())
	}
	err := host.Unmarshal(reply.GetResponse(), a.call.Response)
	wire.FreeReply(reply)
	return err
}

// await waits until the map says something else than was seen; or, where the owner could not be reached, until it is
// time to try it again; or, where the owner knows of a later map than this process, until it is time to ask it again.
// It returns errAgain, or the error of a call that has not been started within its time.
func (a *attempt) await(ctx context.Context, seen Seen, unreachable error) error {
	limit, again := a.by(), false
	switch {
	case unreachable != nil:
		a.pause.Policy, again = unreachableAgain, true
	case seen.Named > seen.Generation:
		a.pause.Policy, again = namedAgain, true
	case seen.Named > 0: // its map is late, or of another history
		a.pause.Policy, again = unreachableAgain, true
	}
	// The former owner of a shard may wait for a call of Deactivated, and this process for that.
	ending := host.Ending(host.ChainOf(ctx))
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
	err := a.router.cfg.Map.AwaitChange(waiting, a.shard, seen)
	release()
	cancel()
	if err == nil || again && a.router.mayWait(a.call.Outside) == nil && a.late(ctx) == nil &&
		errors.Is(err, context.DeadlineExceeded) {
		return errAgain
	}
	what := "no node owns the shard of the object"
	if seen.Owner != "" {
		what = "the object's node is " + seen.Owner + ", which does not serve its shard now"
	}
	if unreachable != nil {
		what = unreachable.Error()
	}
	if ending && ctx.Err() == nil {
		return objects.Error(codes.Unavailable, objects.ReasonNotStarted,
			"objects: the call was not started: "+what+" (a call by Deactivated does not wait for that)")
	}
	return a.notStarted(ctx, what, err)
}

// late is why the call cannot be made in time any more, nil if it can.
func (a *attempt) late(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !time.Now().Before(a.by()) {
		return context.DeadlineExceeded
	}
	return nil
}

// notStarted is the error of a call that was not started, because of err.
func (a *attempt) notStarted(ctx context.Context, what string, err error) error {
	code := codes.Unavailable
	if stops := a.router.mayWait(a.call.Outside); stops != nil && ctx.Err() == nil {
		err = stops
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		code = status.FromContextError(context.DeadlineExceeded).Code()
		if errors.Is(ctx.Err(), context.Canceled) {
			code = codes.Canceled
		}
	}
	return objects.Error(code, objects.ReasonNotStarted,
		fmt.Sprintf("objects: the call was not started: %s (%v)", what, err))
}
