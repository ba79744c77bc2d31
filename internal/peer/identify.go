package peer

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// Errors of Identify, besides ErrBadAddress. Compare with errors.Is.
var (
	// ErrRefused is returned when the connection was refused. It is evidence that no process listens there.
	ErrRefused = errors.New("connection refused")
	// ErrNotNode is returned when a gRPC server answered that is not a Goverse node.
	ErrNotNode = errors.New("not a Goverse node")
	// ErrNoAnswer is returned after silence, a time-out, a broken connection, for an unreachable or unknown
	// host, and for a peer with another protocol. It is evidence of nothing.
	ErrNoAnswer = errors.New("no answer")
	// ErrOtherInstance is returned by OpenWatch alone, when another instance answered than the wanted one.
	ErrOtherInstance = errors.New("another instance")
)

// Identity describes the process that answered Identify.
type Identity struct {
	// InstanceID is the random id of the process. It is never empty.
	InstanceID string
	// AdvertiseAddress is the address that the process advertises. It may be spelled differently from the
	// address that was dialed.
	AdvertiseAddress string
	// Stopping reports that the process is alive and about to stop.
	Stopping bool
}

// Identify asks the node at address (host:port) for its identity. It makes one attempt, blocks at most until
// ctx ends, and closes the connection. Errors match exactly one of ErrRefused, ErrNotNode, ErrNoAnswer and
// ErrBadAddress, and wrap the cause.
//
// The options opts configure the connection, for example with transport credentials; without any, it is plain
// text. Identify never uses a proxy, nor a dialer among opts, because only its own dialer can detect a refused
// connection.
func Identify(ctx context.Context, address string, opts ...grpc.DialOption) (Identity, error) {
	c, err := newDialAttempt(ctx, address, opts)
	if err != nil {
		return Identity{}, err
	}
	defer c.close()
	resp, err := nodepb.NewNodeClient(c.conn).Identify(ctx, &nodepb.IdentifyRequest{})
	if err != nil {
		return Identity{}, c.classifyError(ctx, err)
	}
	if resp.GetInstanceId() == "" {
		return Identity{}, c.noInstanceError()
	}
	return Identity{InstanceID: resp.GetInstanceId(), AdvertiseAddress: resp.GetAdvertiseAddress(),
		Stopping: resp.GetStopping()}, nil
}
