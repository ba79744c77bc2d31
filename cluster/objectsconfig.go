package cluster

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
)

// ObjectsConfig says how this node hosts objects, and calls them. The zero value works. All nodes of a cluster should
// have the same MaxMessage.
type ObjectsConfig struct {
	// IdleAfter is after how long without a call an object is deactivated. Default 10 min.
	IdleAfter time.Duration
	// MaxActive is how many objects are active on this node at a time, about: for one more, the least
	// recently called one is deactivated. Default 1048576.
	MaxActive int
	// MaxQueue is how many calls may wait for one object, and MaxWaiting for all of this node; further ones
	// fail with RESOURCE_EXHAUSTED. A call that need not wait is never refused. Default 1024 and 262144.
	MaxQueue, MaxWaiting int
	// MaxWaitingBytes is how many bytes may wait on this node for objects, for parts of calls that are missing, and for
	// those who do not read their streams. No connection may hold more than half of what the others leave; what goes
	// beyond fails with RESOURCE_EXHAUSTED. Default: a quarter of the memory that this process may have (GOMEMLIMIT,
	// its cgroup's, or the machine's), between 32 MiB and 96 MiB. The process may take up to twice as much for it.
	MaxWaitingBytes int64
	// ActivationTimeout is how long a factory may take. Default 10 s.
	ActivationTimeout time.Duration
	// CallTimeout is the deadline of unary calls made on this node that have none. Default 30 s.
	CallTimeout time.Duration
	// MaxMessage is how many bytes a request or response may have that travels between nodes; a call with a longer one
	// fails with RESOURCE_EXHAUSTED. Calls from outside are bounded by node.Config.ServerOptions, too. Default 4 MiB,
	// as gRPC has it.
	MaxMessage int

	// UnaryInterceptors and StreamInterceptors are around each call of an object, on the object's node and
	// within its turn, the first one outermost. Those of node.Config.ServerOptions are around calls that come from
	// outside, on the node that they come to.
	UnaryInterceptors  []grpc.UnaryServerInterceptor
	StreamInterceptors []grpc.StreamServerInterceptor
	// UnaryClientInterceptors and StreamClientInterceptors are around each call that is made by Objects.At, the first
	// one outermost. The connection that they are given is not that of the call.
	UnaryClientInterceptors  []grpc.UnaryClientInterceptor
	StreamClientInterceptors []grpc.StreamClientInterceptor
}

func (o ObjectsConfig) validate() error {
	for name, d := range map[string]time.Duration{"IdleAfter": o.IdleAfter, "ActivationTimeout": o.ActivationTimeout,
		"CallTimeout": o.CallTimeout} {
		if d < 0 {
			return fmt.Errorf("%w: Objects.%s is negative (%v); leave it 0 for the default", ErrBadConfig, name, d)
		}
	}
	if o.MaxWaitingBytes < 0 {
		return fmt.Errorf("%w: Objects.MaxWaitingBytes is negative (%d); leave it 0 for the default", ErrBadConfig,
			o.MaxWaitingBytes)
	}
	for name, n := range map[string]int{"MaxActive": o.MaxActive, "MaxQueue": o.MaxQueue, "MaxWaiting": o.MaxWaiting,
		"MaxMessage": o.MaxMessage} {
		if n < 0 {
			return fmt.Errorf("%w: Objects.%s is negative (%d); leave it 0 for the default", ErrBadConfig, name, n)
		}
	}
	return nil
}
