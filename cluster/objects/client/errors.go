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
)

// The errors, to test for with errors.Is.
var (
	// ErrOtherCluster: a node that was asked is of another cluster than Config.Prefix says.
	ErrOtherCluster = errors.New("client: the node is of another cluster; check Addresses and Prefix")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client: closed")
)

// askError is why a node did not report the routes.
type askError struct {
	address string
	err     error
}

// Error is one line.
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

// refused reports whether it is of no use to ask that node again before something is set right.
func (e *askError) refused() bool {
	switch status.Code(e.err) {
	case codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return errors.Is(e.err, errOptions)
}

// dialError is why Dial failed.
type dialError struct {
	asked []*askError
	cause error // the end of the context; nil if all nodes have refused
}

// Error is one line.
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

// GRPCStatus makes the error a status.
func (closedError) GRPCStatus() *status.Status {
	return status.Convert(objects.Error(codes.Unavailable, objects.ReasonNotStarted, ErrClosed.Error()))
}

// endOf is why a context has ended: its error, and the cause if it has one of its own.
func endOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w (%w)", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}
