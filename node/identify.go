package node

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

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// What Identify can fail with, beside ErrBadAddress. Compare with errors.Is.
var (
	// ErrRefused: the connection was refused. Evidence that nobody listens there.
	ErrRefused = errors.New("connection refused")
	// ErrNotNode: a gRPC server answered, but it is not a Goverse node.
	ErrNotNode = errors.New("not a Goverse node")
	// ErrNoAnswer: silence, a time-out, an unreachable or unknown host, a broken
	// connection, a peer that speaks something else. Evidence of nothing.
	ErrNoAnswer = errors.New("no answer")
)

// Identity is what a node says of itself.
type Identity struct {
	// InstanceID is the random id of the process that answered; never empty.
	InstanceID string
	// AdvertiseAddress is where that process wants to be reached, which may be
	// spelled differently from the address that was asked.
	AdvertiseAddress string
	// Stopping: the process is alive and about to stop.
	Stopping bool
}

// Identify asks the node at address (host:port) who it is. It makes one attempt,
// blocks no longer than ctx allows, and closes the connection. Errors match exactly
// one of ErrRefused, ErrNotNode, ErrNoAnswer and ErrBadAddress, and wrap the cause.
//
// opts configure the connection, for example transport credentials; without any, it
// is plain text. Proxies are never used, and a dialer among opts is not: whether a
// connection was refused can only be learned from a dialer of its own.
func Identify(ctx context.Context, address string, opts ...grpc.DialOption) (Identity, error) {
	if err := checkAddress("address", address); err != nil {
		return Identity{}, err
	}
	attempt := &dialOnce{ctx: ctx, done: make(chan struct{})}
	defer attempt.join()
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	all = append(all, grpc.WithNoProxy(), grpc.WithContextDialer(attempt.dial))
	// passthrough: the dialer gets the address as it is, and resolves it itself.
	conn, err := grpc.NewClient("passthrough:///"+address, all...)
	if err != nil {
		return Identity{}, noAnswer(address, err)
	}
	defer func() { _ = conn.Close() }()
	resp, err := nodepb.NewNodeClient(conn).Identify(ctx, &nodepb.IdentifyRequest{})
	switch {
	case err == nil && resp.GetInstanceId() != "":
		return Identity{InstanceID: resp.GetInstanceId(), AdvertiseAddress: resp.GetAdvertiseAddress(), Stopping: resp.GetStopping()}, nil
	case err == nil:
		return Identity{}, fmt.Errorf("node: %w: the server at %s has no instance id: check the address", ErrNotNode, address)
	case status.Code(err) == codes.Unimplemented:
		return Identity{}, fmt.Errorf("node: %w: the server at %s does not know Identify: check the address", ErrNotNode, address)
	}
	if failed := attempt.result(); failed != nil {
		if errors.Is(failed, syscall.ECONNREFUSED) {
			return Identity{}, fmt.Errorf("node: %w: nobody listens at %s: start a node there or check the address (%w)", ErrRefused, address, failed)
		}
		err = failed
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return Identity{}, noAnswer(address, err)
}

// noAnswer is the error for everything that proves nothing.
func noAnswer(address string, cause error) error {
	return fmt.Errorf("node: %w from %s: check the address, the network and the TLS settings (%w)", ErrNoAnswer, address, cause)
}

// dialOnce dials the first time it is asked to and remembers what came of it. grpc
// tries again by itself, which would turn one attempt into many.
type dialOnce struct {
	ctx   context.Context // the caller's, which grpc's own does not follow
	tried atomic.Bool
	done  chan struct{} // closed when the attempt has ended
	mu    sync.Mutex
	err   error
}

// errTried answers all attempts but the first.
var errTried = errors.New("only one attempt is made")

// dial is the dialer for grpc.
func (d *dialOnce) dial(ctx context.Context, address string) (net.Conn, error) {
	if d.tried.Swap(true) {
		return nil, errTried
	}
	defer close(d.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := dialEvery(ctx, address)
	d.mu.Lock()
	d.err = err
	d.mu.Unlock()
	return conn, err
}

// join makes sure that no attempt runs any more and none begins.
func (d *dialOnce) join() {
	if d.tried.Swap(true) {
		<-d.done
	}
}

// result returns the error of the attempt, nil if it succeeded, is under way or was
// never made.
func (d *dialOnce) result() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// dialEvery connects to address. Where the host is a name with several IP addresses,
// the net package reports the first failure only; a refusal counts as one only if
// every address refused, so a second look is taken at each of them.
func dialEvery(ctx context.Context, address string) (net.Conn, error) {
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
			// This machine has no such protocol, usually IPv6: nobody there to ask.
		default:
			return nil, other
		}
	}
	return nil, err
}
