package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// The errors of a client; test for them with errors.Is.
var (
	// ErrOtherCluster is returned if a node belongs to another cluster than Config.Prefix names.
	ErrOtherCluster = errors.New("client: the node is of another cluster; check Addresses and Prefix")
	// ErrClosed is returned if the client was closed.
	ErrClosed = errors.New("client: closed")
)

// askError reports why a node did not report the routes.
type askError struct {
	address string
	err     error
}

// Error returns one line.
func (e *askError) Error() string {
	if s, ok := status.FromError(e.err); ok {
		return e.address + ": " + logtext.OneLine(errors.New(s.Message()))
	}
	return e.address + ": " + logtext.OneLine(e.err)
}

// Unwrap implements errors.Unwrap.
func (e *askError) Unwrap() []error {
	if status.Code(e.err) == codes.FailedPrecondition {
		return []error{ErrOtherCluster, e.err}
	}
	return []error{e.err}
}

// isPermanent reports whether asking the node again is useless until something is corrected.
func (e *askError) isPermanent() bool {
	switch status.Code(e.err) {
	case codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return errors.Is(e.err, errOptions)
}

// dialError reports why Dial failed.
type dialError struct {
	asked []*askError
	cause error // the error of the context; nil if all nodes have refused
}

// Error returns one line.
func (e *dialError) Error() string {
	var b strings.Builder
	b.WriteString("client: no node has reported the routes of the cluster: ")
	for _, a := range e.asked {
		b.WriteString(a.Error() + "; ")
	}
	b.WriteString("check Addresses and Prefix; if the nodes use TLS, set DialOptions (they may require a certificate)")
	if e.cause != nil {
		b.WriteString(" (" + e.cause.Error() + ")")
	}
	return b.String()
}

// Unwrap implements errors.Unwrap.
func (e *dialError) Unwrap() []error {
	var all []error
	for _, a := range e.asked {
		all = append(all, a)
	}
	if e.cause != nil {
		all = append(all, e.cause)
	}
	return all
}

// closedError is ErrClosed as the error of a call.
type closedError struct{}

// Error implements error.
func (closedError) Error() string { return ErrClosed.Error() }

// Unwrap implements errors.Unwrap.
func (closedError) Unwrap() error { return ErrClosed }

// GRPCStatus returns the error as a gRPC status.
func (closedError) GRPCStatus() *status.Status {
	return status.Convert(hosted.Error(codes.Unavailable, objects.ReasonNotStarted, ErrClosed.Error()))
}

// contextError returns the error of an ended context, with its cause if that is another error.
func contextError(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w (%w)", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}
