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

// Objects returns the handle for calling the cluster's objects. It is never nil.
func (c *Cluster) Objects() *Objects { return &c.objects }

// At returns a connection to the objects with that key, one for each service, to pass to a generated client:
//
//	counterpb.NewCounterClient(c.Objects().At("alice"))
//
// The connection opens no network connection of its own and need not be closed. It can be obtained and kept as
// soon as NewClusterWithNode has returned. Keys have 1 to [objects.MaxKey] bytes. A call goes to the node that
// owns the key's shard. While the shard moves, or has no owner yet, the call waits until its deadline, or for
// Config.Objects.CallTimeout if it has none. Errors are gRPC statuses; [objects.NotStarted] reports whether the
// call certainly had no effect. Errors of a node that does not run are UNAVAILABLE and match ErrNotStarted or
// ErrStopped. Any node may call objects, even one without shards of its own. Only the call options for headers,
// trailers and the call's end have an effect.
func (o *Objects) At(key string) grpc.ClientConnInterface { return &objectConn{o.c, key} }

// Stats returns figures about this node's part in the objects. They are zero while the node does not run. Stats
// does not use the network.
func (o *Objects) Stats() objects.Stats {
	p, err := o.c.runningParts()
	if err != nil {
		return objects.Stats{}
	}
	return p.objects.stats()
}

// Find returns the address of the node that owns the objects with that key, as far as this node knows, "" if no
// node does, and the activations of those objects on this node.
func (o *Objects) Find(key string) (owner string, here []objects.Activity) {
	p, err := o.c.runningParts()
	if err != nil {
		return "", nil
	}
	n, known := p.objects.routes.Shard(key)
	if !known {
		return "", nil
	}
	owner, _ = p.objects.routes.Owner(n)
	if p.objects.host != nil {
		here = p.objects.host.DescribeObjects(n, key)
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
	p, err := o.c.runningParts()
	if err != nil {
		return &notRunningError{err}
	}
	return p.objects.router.Invoke(ctx, o.key, method, request, response, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (o *objectConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	p, err := o.c.runningParts()
	if err != nil {
		return nil, &notRunningError{err}
	}
	return p.objects.router.NewStream(ctx, o.key, desc, method, opts...)
}

// notRunningError is ErrNotStarted or ErrStopped, returned as the error of a call.
type notRunningError struct{ err error }

// Error implements error.
func (e *notRunningError) Error() string { return e.err.Error() }

// Unwrap implements errors.Unwrap.
func (e *notRunningError) Unwrap() error { return e.err }

// GRPCStatus converts the error to a status.
func (e *notRunningError) GRPCStatus() *status.Status {
	return status.Convert(objects.Error(codes.Unavailable, objects.ReasonNotStarted, e.err.Error()))
}

// RegisterObjects hosts a service as objects. [objects.Register] calls it, before Start. It panics after Start,
// or if the node already has a service of that name.
func (c *Cluster) RegisterObjects(s objects.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseNew {
		panic("objects: service " + s.Desc.ServiceName + " registered after Start: register services between " +
			"NewClusterWithNode and Start")
	}
	gateway.RegisterService(c.node.Server(), s.Desc, c.runningGateway)
	c.services = append(c.services, s)
}

// runningGateway returns the gateway of the running node.
func (c *Cluster) runningGateway() (*gateway.Gateway, error) {
	p, err := c.runningParts()
	if err != nil {
		return nil, &notRunningError{err}
	}
	return p.objects.gateway, nil
}
