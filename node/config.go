package node

import (
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/peer"
)

// Config configures a node's addresses and server. At least one of the two addresses is required.
type Config struct {
	// AdvertiseAddress is the host:port under which other processes reach this node, and its name in the
	// cluster. The host must mean this machine to every other node, so an empty host, 0.0.0.0 and :: are
	// rejected. NewNode does not check that a name resolves; a cluster logs a warning while it does not. Port 0
	// is replaced by the bound port. Empty means ListenAddress.
	AdvertiseAddress string

	// ListenAddress is the host:port to bind if it differs from the advertised one: behind address translation,
	// or ":47001" for every interface. Port 0 picks a free port. Empty means AdvertiseAddress.
	ListenAddress string

	// ServerOptions are appended to the node's own options for the gRPC server, so they take precedence. The
	// node's own options allow 16384 concurrent calls per connection and 64 KiB of headers per call. Messages
	// have gRPC's limit of 4 MiB. Flow control windows are fixed, at 256 KiB for a stream and 16 MiB for a
	// connection; a longer message is still read in one go. At most 6 requests of unary calls are received
	// concurrently on one connection.
	//
	// For TLS, pass grpc.Creds here and the matching grpc.WithTransportCredentials to the callers of this node,
	// such as the other nodes of its cluster.
	ServerOptions []grpc.ServerOption

	// Logger receives the node's log. Nil disables logging.
	Logger hclog.Logger
}

// Validate checks the addresses without binding them. Its errors are one line, name the field to change, and
// match ErrBadAddress.
func (c Config) Validate() error { return peer.Config(c).Validate() }
