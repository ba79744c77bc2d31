package host

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// Shards is the node's part in the shards: what a host needs of it.
type Shards interface {
	// Count is how many there are.
	Count() int
	// Enter counts a turn in if the shard is served at this instant; Exit counts it out. Reenter is for a turn that
	// another one waits for which has entered: also while the shard leaves.
	Enter(shard int) (epoch int64, ok bool)
	Reenter(shard int) (epoch int64, ok bool)
	Exit(shard int)
	// Holds reports whether the shard is had under that epoch at this instant, whether it is served or leaves.
	Holds(shard int, epoch int64) bool
	// Drained ends when what runs in the shard is to be cut off, Staying as soon as the shard leaves. They are for
	// who has entered.
	Drained(shard int) context.Context
	Staying(shard int) context.Context
	// Await blocks until the shard is served: nil; or is not this node's by a map of another generation than seen, which
	// it returns with an error; or ctx ends: then it returns seen, or less than 0 if by the map it is this node that is to
	// serve the shard.
	Await(ctx context.Context, shard int, seen int64) (generation int64, err error)
	// History counts the times that the generations of maps began anew.
	History() int
}

// Config is what a host needs. Zero limits are the defaults.
type Config struct {
	Shards Shards
	// At is the connection to an object, for Object.At.
	At func(key string) grpc.ClientConnInterface
	// Unary and Stream are around each call of an object, on its node; nil: none.
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor

	IdleAfter         time.Duration // default 10 min
	MaxActive         int           // activations; default 1 << 20
	MaxQueue          int           // calls that wait for one object; default 1024
	MaxWaiting        int           // calls that wait for any object; default 1 << 18
	MaxMessage        int           // bytes of a request or response of a call from this process; default 4 MiB
	ActivationTimeout time.Duration // default 10 s
	DrainTimeout      time.Duration // of what deactivates; default 10 s

	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	c.IdleAfter = or(c.IdleAfter, 10*time.Minute)
	c.MaxActive = or(c.MaxActive, 1<<20)
	c.MaxQueue = or(c.MaxQueue, 1024)
	c.MaxWaiting = or(c.MaxWaiting, 1<<18)
	c.MaxMessage = or(c.MaxMessage, 4<<20)
	c.ActivationTimeout = or(c.ActivationTimeout, 10*time.Second)
	c.DrainTimeout = or(c.DrainTimeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

func or[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}
