package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/state/format/formatheader"
)

// dialAttempt is one attempt to call the node at address.
type dialAttempt struct {
	address string
	conn    *grpc.ClientConn
	dial    *dialOnce
}

// newDialAttempt prepares an attempt; the first call on conn dials. The context limits the dialing, and opts are the
// caller's. Errors match ErrBadAddress or ErrNoAnswer.
func newDialAttempt(ctx context.Context, address string, opts []grpc.DialOption) (*dialAttempt, error) {
	if err := checkAddress("address", address); err != nil {
		return nil, err
	}
	dial := &dialOnce{ctx: ctx, done: make(chan struct{})}
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	all = append(all, grpc.WithNoProxy(), grpc.WithContextDialer(dial.dial))
	all = append(all, formatheader.DialOptions()...)
	// With passthrough, the dialer receives the address unchanged and resolves it itself.
	conn, err := grpc.NewClient("passthrough:///"+address, all...)
	if err != nil {
		return nil, noAnswerError(address, err)
	}
	return &dialAttempt{address: address, conn: conn, dial: dial}, nil
}

func (a *dialAttempt) close() {
	_ = a.conn.Close()
	a.dial.awaitDial()
}

// classifyError converts the error of a call into one that matches exactly one of ErrRefused, ErrNotNode and
// ErrNoAnswer.
func (a *dialAttempt) classifyError(ctx context.Context, err error) error {
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("node: %w: the server at %s does not know this call: check the address", ErrNotNode, a.address)
	}
	if failed := a.dial.result(); failed != nil {
		if errors.Is(failed, syscall.ECONNREFUSED) {
			return fmt.Errorf("node: %w: no process listens at %s: start a node there or check the address (%w)", ErrRefused,
				a.address, failed)
		}
		err = failed
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return noAnswerError(a.address, err)
}

// noInstanceError returns the error for a server that has no instance id.
func (a *dialAttempt) noInstanceError() error {
	return fmt.Errorf("node: %w: the server at %s has no instance id: check the address", ErrNotNode, a.address)
}

// noAnswerError returns the error for all cases that prove nothing.
func noAnswerError(address string, cause error) error {
	return fmt.Errorf("node: %w from %s: check the address, the network and the TLS settings (%w)",
		ErrNoAnswer, address, cause)
}

// dialOnce dials once and stores the result. Without it, gRPC's own retries would turn one attempt into many.
type dialOnce struct {
	ctx   context.Context // the caller's; grpc's dial context does not follow it
	tried atomic.Bool
	done  chan struct{} // closed when the attempt has ended
	mu    sync.Mutex
	err   error
}

// errTried is returned by all attempts but the first.
var errTried = errors.New("only one attempt is made")

func (d *dialOnce) dial(ctx context.Context, address string) (net.Conn, error) {
	if d.tried.Swap(true) {
		return nil, errTried
	}
	defer close(d.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := dialAllAddresses(ctx, address)
	d.mu.Lock()
	d.err = err
	d.mu.Unlock()
	return conn, err
}

// awaitDial makes sure that no attempt is running, and that none starts later.
func (d *dialOnce) awaitDial() {
	if d.tried.Swap(true) {
		<-d.done
	}
}

// result returns the error of the attempt. It is nil if the attempt succeeded, is in progress, or was never
// made.
func (d *dialOnce) result() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// dialAllAddresses connects to address. If the host name has several IP addresses, package net reports only the first
// failure. A refusal counts only if every address refuses, so after a refusal dialAllAddresses tries each address.
func dialAllAddresses(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return conn, err
	}
	host, port, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, err
	}
	ips, lookupErr := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if lookupErr != nil {
		return nil, lookupErr
	}
	if len(ips) < 2 {
		return nil, err
	}
	for _, ip := range ips {
		conn, other := d.DialContext(ctx, "tcp", net.JoinHostPort(ip.String(), port))
		switch {
		case other == nil:
			return conn, nil
		case errors.Is(other, syscall.ECONNREFUSED):
		case errors.Is(other, syscall.EADDRNOTAVAIL), errors.Is(other, syscall.EAFNOSUPPORT):
			// This machine lacks the protocol, usually IPv6, so the address has no process to ask.
		default:
			return nil, other
		}
	}
	return nil, err
}
