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
	"github.com/goverse/goverse/internal/objects/hosted"
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
	var asked callOptions
	if err := asked.readOptions(opts); err != nil {
		return err
	}
	call := r.NewCall()
	defer r.FreeCall(call)
	call.Name, call.Key, call.Request, call.Response = method, key, request, response
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		call.Metadata = md
	}
	err := r.Do(ctx, call)
	asked.applyFinished(call, err)
	return err
}

// NewCall returns an empty call, to be given back by FreeCall.
func (r *Router) NewCall() *host.Call {
	if c, ok := r.calls.Get().(*host.Call); ok {
		return c
	}
	return &host.Call{}
}

// FreeCall gives back a call that is no longer used.
func (r *Router) FreeCall(c *host.Call) {
	if !c.Abandoned() {
		c.Reset()
		r.calls.Put(c)
	}
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
	return hosted.Error(codes.InvalidArgument, objects.ReasonBadCall, "objects: "+problem)
}

// Do makes a unary call by its name, with the chain and the deadline of ctx. The error is a gRPC status.
func (r *Router) Do(ctx context.Context, c *host.Call) error {
	if err := CheckKey(c.Key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	a := r.newAttempt(ctx, c)
	c.RequestOwned = c.RequestOwned && !a.isIdempotent() // a repeated call needs its request again
	for {
		err := a.send(ctx)
		if !errors.Is(err, errRetry) {
			wire.FreeCall(a.out)
			return a.finalError(err)
		}
		c.Header, c.Trailer = nil, nil
		r.counters.Retried.Add(1)
		if err := a.checkTime(ctx); err != nil {
			return a.finalError(a.notStartedError(ctx, "its time is over", err))
		}
	}
}
