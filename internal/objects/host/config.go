package host

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// Shards is the interface of a host to the shards of its node.
type Shards interface {
	// Count returns the number of shards.
	Count() int
	// Enter admits a turn if the shard is served at this instant. Reenter admits a turn for which an admitted
	// turn waits, also while the shard leaves. Exit ends either.
	Enter(shard int) (epoch int64, ok bool)
	Reenter(shard int) (epoch int64, ok bool)
	Exit(shard int)
	// Holds reports whether this node has the shard under that epoch at this instant: it serves the shard, or
	// the shard leaves.
	Holds(shard int, epoch int64) bool
	// Drained returns a context that ends when the turns in the shard must be cut off. The context of Staying
	// ends as soon as the shard leaves. Both may be called only between Enter and Exit.
	Drained(shard int) context.Context
	Staying(shard int) context.Context
	// Await blocks until the shard is served, and then returns nil. It fails when a map of another generation
	// than seen does not assign the shard to this node, and returns that generation. It also fails when ctx
	// ends: generation is then seen, or negative if the map assigns the shard to this node.
	Await(ctx context.Context, shard int, seen int64) (generation int64, err error)
	// History returns the number of times that the generations of maps began anew.
	History() int
}

// Config configures a Host. Shards and all limits are required; the limits of a cluster are in its ObjectsConfig.
type Config struct {
	Shards Shards
	// At returns the connection to an object, for Object.At.
	At func(key string) grpc.ClientConnInterface
	// Unary and Stream wrap each call of an object on its node; nil means none.
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor

	IdleAfter         time.Duration // for services that have no objects.IdleAfter
	MaxActive         int           // limits activations
	MaxQueue          int           // limits the calls waiting for one object
	MaxWaiting        int           // limits the calls waiting for all objects
	MaxMessage        int           // limits a request or response within this process, in bytes
	ActivationTimeout time.Duration // limits a factory
	DrainTimeout      time.Duration // limits Deactivated

	Logger hclog.Logger // nil: none
}

// orDefault returns value, or otherwise if it is zero.
func orDefault[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}
