package cluster

import (
	"cmp"
	"time"

	"google.golang.org/grpc"
)

// ObjectsConfig configures how this node hosts and calls objects. The zero value works. All nodes of a cluster
// should have the same MaxMessage.
type ObjectsConfig struct {
	// IdleAfter is the time without a call after which an object is deactivated. Default 10 min.
	IdleAfter time.Duration
	// MaxActive limits, approximately, the objects active on this node. To activate one more, the least recently
	// called one is deactivated. Default 1048576.
	MaxActive int
	// MaxQueue limits the calls waiting for one object, and MaxWaiting those waiting on this node; further ones
	// fail with RESOURCE_EXHAUSTED. A call that need not wait is never refused. Default 1024 and 262144.
	MaxQueue, MaxWaiting int
	// MaxWaitingBytes limits the bytes that wait on this node for objects, for missing parts of calls, and for
	// slow readers of streams. A single connection may hold at most half of what the others leave free. Calls
	// beyond that fail with RESOURCE_EXHAUSTED. The default is a quarter of the memory available to this process
	// (GOMEMLIMIT, the limit of its cgroup, or the machine's memory), between 32 MiB and 96 MiB. The process may
	// use up to twice this much memory for it.
	MaxWaitingBytes int64
	// ActivationTimeout limits the time that a factory may take. Default 10 s.
	ActivationTimeout time.Duration
	// CallTimeout is the deadline of unary calls from this node that have none. Default 30 s.
	CallTimeout time.Duration
	// MaxMessage limits the bytes of a request or response that travels between nodes. Calls with a longer one
	// fail with RESOURCE_EXHAUSTED. Calls from outside of the cluster are also bounded by
	// node.Config.ServerOptions. Default 4 MiB, like gRPC's.
	MaxMessage int

	// UnaryInterceptors and StreamInterceptors wrap each call of an object, on the object's node and within its
	// turn. The first one is outermost. Interceptors in node.Config.ServerOptions wrap calls that come from
	// outside of the cluster, on the node that receives them.
	UnaryInterceptors  []grpc.UnaryServerInterceptor
	StreamInterceptors []grpc.StreamServerInterceptor
	// UnaryClientInterceptors and StreamClientInterceptors wrap each call made through Objects.At. The first one
	// is outermost. The connection that they receive is not the one that carries the call.
	UnaryClientInterceptors  []grpc.UnaryClientInterceptor
	StreamClientInterceptors []grpc.StreamClientInterceptor
}

func (o ObjectsConfig) withDefaults() ObjectsConfig {
	o.IdleAfter = cmp.Or(o.IdleAfter, 10*time.Minute)
	o.MaxActive = cmp.Or(o.MaxActive, 1<<20)
	o.MaxQueue = cmp.Or(o.MaxQueue, 1024)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 1<<18)
	o.ActivationTimeout = cmp.Or(o.ActivationTimeout, 10*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, 30*time.Second)
	o.MaxMessage = cmp.Or(o.MaxMessage, 4<<20)
	return o
}

func (o ObjectsConfig) validate() error {
	return cmp.Or(
		checkNotNegative("Objects.IdleAfter", o.IdleAfter),
		checkNotNegative("Objects.ActivationTimeout", o.ActivationTimeout),
		checkNotNegative("Objects.CallTimeout", o.CallTimeout),
		checkNotNegative("Objects.MaxWaitingBytes", o.MaxWaitingBytes),
		checkNotNegative("Objects.MaxActive", o.MaxActive),
		checkNotNegative("Objects.MaxQueue", o.MaxQueue),
		checkNotNegative("Objects.MaxWaiting", o.MaxWaiting),
		checkNotNegative("Objects.MaxMessage", o.MaxMessage))
}
