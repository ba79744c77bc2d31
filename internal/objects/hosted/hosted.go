// Package hosted holds the inside of package objects that clusters and hosts see, and users do not.
package hosted

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Service describes a gRPC service that is hosted as objects. objects.Register creates it.
type Service struct {
	// Desc is the generated description of the service.
	Desc *grpc.ServiceDesc
	// New returns the implementation of one object.
	New func(ctx context.Context, o *Object) (any, error)
	// Options holds the options passed to objects.Register.
	Options Options
}

// Options configures how a service is hosted. The zero value runs one call at a time, with the limits of the
// cluster's configuration.
type Options struct {
	// Concurrent, Reentrant and Idempotent list methods, without the service's name.
	Concurrent, Reentrant, Idempotent []string
	// IdleAfter is the time without a call after which an object is deactivated; 0 means the configuration's.
	IdleAfter time.Duration
	// MaxQueue limits the calls that wait for one object; 0 means the configuration's limit.
	MaxQueue int
}

// AllMethods represents every method of a service in a list of Options.
const AllMethods = "*"

// Includes reports whether a list of Options includes a method.
func Includes(list []string, method string) bool {
	return slices.Contains(list, method) || slices.Contains(list, AllMethods)
}

// Object is an objects.Object.
type Object struct{ activation Activation }

// NewObject returns the object of an activation.
func NewObject(a Activation) Object { return Object{a} }

// Activation returns the host's side of the object.
func (o *Object) Activation() Activation { return o.activation }

// Activation is the host's side of an Object.
type Activation interface {
	Service() string
	Key() string
	Shard() int
	Epoch() int64
	Context() context.Context
	Valid() bool
	At(key string) grpc.ClientConnInterface
	Every(period time.Duration, tick func(ctx context.Context)) (stop func())
	After(delay time.Duration, tick func(ctx context.Context)) (stop func())
	Deactivate()
}

// Handle is an objects.Objects.
type Handle struct{ cluster any }

// NewHandle returns the handle for the objects of a cluster. The cluster has the methods that package objects lists.
func NewHandle(cluster any) *Handle { return &Handle{cluster} }

// Cluster returns the cluster.
func (h *Handle) Cluster() any { return h.cluster }

// ErrorDomain is the domain of the errors of Error.
const ErrorDomain = "goverse"

// Error returns the error of a call that Goverse itself answers: a gRPC status with a google.rpc.ErrorInfo.
func Error(code codes.Code, reason, message string) error {
	s, err := status.New(code, message).WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: ErrorDomain})
	if err != nil { // the code is OK
		return status.Error(codes.Internal, message)
	}
	return s.Err()
}
