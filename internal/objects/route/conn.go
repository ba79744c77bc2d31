package route

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/link/wire"
)

func newDummyConn() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///objects", grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// Invoke implements grpc.ClientConnInterface for the object with that key.
func (r *Router) Invoke(ctx context.Context, key, method string, request, response any,
	opts ...grpc.CallOption) error {
	if r.cfg.Unary == nil {
		return r.invokeDirect(ctx, key, method, request, response, opts)
	}
	return r.cfg.Unary(ctx, method, request, response, r.dummyConn,
		func(ctx context.Context, method string, request, response any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
			return r.invokeDirect(ctx, key, method, request, response, opts)
		}, opts...)
}

func (r *Router) invokeDirect(ctx context.Context, key, method string, request, response any,
	opts []grpc.CallOption) error {
	call := Call{Method: method, Key: key, Request: request, Response: response}
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		call.Metadata = md
	}
	if len(opts) == 0 {
		return r.Do(ctx, &call)
	}
	var asked callOptions
	if err := asked.readOptions(opts); err != nil {
		return err
	}
	err := r.Do(ctx, &call)
	asked.applyFinished(&call, err)
	return err
}

// Call is a unary call to an object on any node.
type Call struct {
	Method   string
	Key      string
	Metadata metadata.MD
	// Request is a message. Response is a message to be filled, or a [Taker].
	Request, Response any
	// Header and Trailer receive the metadata of the reply.
	Header, Trailer metadata.MD
	// RequestOwned reports that no other goroutine uses Request any more.
	RequestOwned bool
	// Outside reports that the caller is not a node and can call another node. If this node may have an
	// outdated map, the call does not wait for it to learn the owner of the object.
	Outside bool
}

// Taker receives a response of any type, or in its serialized form.
type Taker interface {
	host.Taker
	TakeRaw(raw []byte) error
}

// CheckKey returns an error if no object can have that key.
func CheckKey(key string) error {
	switch {
	case key == "":
		return badCallError("the key is empty: say which object is meant, by At(key) or the header " + objects.KeyHeader)
	case len(key) > objects.MaxKey:
		return badCallError("the key has " + strconv.Itoa(len(key)) + " bytes, and may have " + strconv.Itoa(objects.MaxKey))
	}
	return nil
}

// CheckChain returns an error if more turns claim to wait for a call than may wait.
func CheckChain(turns int) error {
	if turns > host.MaxChain {
		return badCallError("the chain of the call has " + strconv.Itoa(turns) + " turns, and may have " +
			strconv.Itoa(host.MaxChain))
	}
	return nil
}

func badCallError(problem string) error {
	return objects.Error(codes.InvalidArgument, objects.ReasonBadCall, "objects: "+problem)
}

// Do makes a call. The error is a gRPC status.
func (r *Router) Do(ctx context.Context, c *Call) error {
	if err := CheckKey(c.Key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	a := callAttempt{router: r, call: *c} // a copy, because values stored in an attempt escape to the heap
	a.deadline, _ = ctx.Deadline()
	if r.cfg.Services != nil {
		a.method = r.cfg.Services.Method(c.Method)
	}
	for {
		err := a.send(ctx)
		if !errors.Is(err, errRetry) {
			wire.FreeCall(a.out)
			c.Header, c.Trailer = a.call.Header, a.call.Trailer
			return err
		}
		r.counters.Retried.Add(1)
		if err := a.checkTime(ctx); err != nil {
			return a.notStartedError(ctx, "its time is over", err)
		}
	}
}
