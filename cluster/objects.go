package cluster

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/gateway"
)

// Objects calls objects, wherever in the cluster they are; see package objects. All methods are safe for
// concurrent use.
type Objects struct{ c *Cluster }

// Objects is the way to the cluster's objects. It is never nil.
func (c *Cluster) Objects() *Objects { return &c.objects }

// At is the connection to the objects with that key, one of each service, for a generated client:
//
//	counterpb.NewCounterClient(c.Objects().At("alice"))
//
// It takes no connection of its own and need not be closed; it can be kept, from NewClusterWithNode on. Keys have 1 to
// [objects.MaxKey] bytes. A call goes to the node that owns the key's shard; while the shard moves, or has no
// owner yet, the call waits, until its deadline, or Config.Objects.CallTimeout where it has none. Its errors are
// gRPC statuses, of which [objects.NotStarted] says whether the call had certainly no effect; those of a node that
// does not run are UNAVAILABLE and match ErrNotStarted or ErrStopped. Any node may call, also one without shards of
// its own. Of the call options, those about headers, trailers and the call's end have an effect.
func (o *Objects) At(key string) grpc.ClientConnInterface { return &objectConn{o.c, key} }

// Stats is this node's part in the objects, as figures; all of them are zero while it does not run. It asks
// nobody.
func (o *Objects) Stats() objects.Stats {
	p, err := o.c.running()
	if err != nil {
		return objects.Stats{}
	}
	return p.objects.stats()
}

// Find is the address of the node that owns the objects with that key, as far as this node knows, "" if nobody does,
// and those of them that are on this node.
func (o *Objects) Find(key string) (owner string, here []objects.Activity) {
	p, err := o.c.running()
	if err != nil {
		return "", nil
	}
	n, known := p.objects.routes.Shard(key)
	if !known {
		return "", nil
	}
	owner, _ = p.objects.routes.Owner(n)
	if p.objects.host != nil {
		here = p.objects.host.Look(n, key)
	}
	return owner, here
}

// objectConn implements grpc.ClientConnInterface.
type objectConn struct {
	c   *Cluster
	key string
}

// Invoke implements grpc.ClientConnInterface.
func (o *objectConn) Invoke(ctx context.Context, method string, request, response any,
	opts ...grpc.CallOption) error {
	p, err := o.c.running()
	if err != nil {
		return &notRunningError{err}
	}
	return p.objects.router.Invoke(ctx, o.key, method, request, response, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (o *objectConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	p, err := o.c.running()
	if err != nil {
		return nil, &notRunningError{err}
	}
	return p.objects.router.NewStream(ctx, o.key, desc, method, opts...)
}

// notRunningError is ErrNotStarted or ErrStopped as the error of a call.
type notRunningError struct{ err error }

// Error implements error.
func (e *notRunningError) Error() string { return e.err.Error() }

// Unwrap implements errors.Unwrap.
func (e *notRunningError) Unwrap() error { return e.err }

// GRPCStatus makes the error a status.
func (e *notRunningError) GRPCStatus() *status.Status {
	return status.Convert(objects.Error(codes.Unavailable, objects.ReasonNotStarted, e.err.Error()))
}

// RegisterObjects hosts a service as objects, before Start: it is what [objects.Register] calls. It panics after
// Start, and where the node has a service of that name.
func (c *Cluster) RegisterObjects(s objects.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != fresh {
		panic("objects: service " + s.Desc.ServiceName + " registered after Start: register services between " +
			"NewClusterWithNode and Start")
	}
	gateway.Register(c.node.Server(), s.Desc, c.gateway)
	c.services = append(c.services, s)
}

// gateway is the running one.
func (c *Cluster) gateway() (*gateway.Gateway, error) {
	p, err := c.running()
	if err != nil {
		return nil, &notRunningError{err}
	}
	return p.objects.gateway, nil
}
