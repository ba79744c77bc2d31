package cluster

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/gateway"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// Objects returns the handle for calling the cluster's objects. It is never nil.
func (c *Cluster) Objects() *objects.Objects { return (*objects.Objects)(c.objects) }

// objectCalls implements the cluster behind an objects.Objects.
type objectCalls struct{ c *Cluster }

func (o objectCalls) At(key string) grpc.ClientConnInterface { return &objectConn{o.c, key} }

func (o objectCalls) Stats() objects.Stats {
	p, err := o.c.runningParts()
	if err != nil {
		return objects.Stats{}
	}
	return p.objects.stats()
}

func (o objectCalls) Find(key string) (owner string, here []objects.Activity) {
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
	return status.Convert(hosted.Error(codes.Unavailable, objects.ReasonNotStarted, e.err.Error()))
}

// Register panics after Start, or if the node already has a service of that name.
func (o objectCalls) Register(s hosted.Service) {
	c := o.c
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
