package node

import (
	"context"
	"errors"

	"google.golang.org/grpc"

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
	c, err := connect(ctx, address, opts)
	if err != nil {
		return Identity{}, err
	}
	defer c.close()
	resp, err := nodepb.NewNodeClient(c.conn).Identify(ctx, &nodepb.IdentifyRequest{})
	if err != nil {
		return Identity{}, c.failed(ctx, err)
	}
	if resp.GetInstanceId() == "" {
		return Identity{}, c.anonymous()
	}
	return Identity{InstanceID: resp.GetInstanceId(), AdvertiseAddress: resp.GetAdvertiseAddress(),
		Stopping: resp.GetStopping()}, nil
}
