package objects

import (
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/objects/hosted"
)

// Objects calls the objects of a cluster, wherever they are. Cluster.Objects returns it. All methods are safe for
// concurrent use.
type Objects hosted.Handle

// cluster is implemented by package cluster.
type cluster interface {
	At(key string) grpc.ClientConnInterface
	Find(key string) (owner string, here []Activity)
	Stats() Stats
	Register(s hosted.Service)
}

func (o *Objects) cluster() cluster { return (*hosted.Handle)(o).Cluster().(cluster) }

// At returns a connection to the objects with that key, one for each service, to pass to a generated client:
//
//	counterpb.NewCounterClient(c.Objects().At("alice"))
//
// The connection opens no network connection of its own and need not be closed. It can be obtained and kept as
// soon as NewClusterWithNode has returned. Keys have 1 to [MaxKey] bytes. A call goes to the node that owns the key's
// shard. While the shard moves, or has no owner yet, the call waits until its deadline, or for
// Config.Objects.CallTimeout if it has none. Errors are gRPC statuses; [NotStarted] reports whether the call
// certainly had no effect. Errors of a node that does not run are UNAVAILABLE and match ErrNotStarted or ErrStopped
// of package cluster. Any node may call objects, even one without shards of its own. Only the call options for
// headers, trailers and the call's end have an effect; the last one takes effect once, when the end of a stream was
// received or its context has ended.
func (o *Objects) At(key string) grpc.ClientConnInterface { return o.cluster().At(key) }

// Find returns the address of the node that owns the objects with that key, as far as this node knows, "" if no
// node does, and the activations of those objects on this node.
func (o *Objects) Find(key string) (owner string, here []Activity) { return o.cluster().Find(key) }

// Stats returns figures about this node's part in the objects. They are zero while the node does not run. Stats
// does not use the network.
func (o *Objects) Stats() Stats { return o.cluster().Stats() }
