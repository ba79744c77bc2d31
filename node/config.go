package node

import (
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
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
	// including Identify.
	ServerOptions []grpc.ServerOption

	// Logger receives the node's log. Nil disables logging.
	Logger hclog.Logger
}

const (
	maxStreams = 16384
	maxHeader  = 64 << 10
	// streamWorkers is the number of goroutines kept for calls. A goroutine created for a call has to grow its
	// stack, which costs a tenth of a small call. If all are busy, gRPC creates others.
	streamWorkers = 64
)

// Validate checks the addresses without binding them. Its errors are one line, name the field to change, and
// match ErrBadAddress.
func (c Config) Validate() error {
	if c.AdvertiseAddress == "" && c.ListenAddress == "" {
		return badAddress("AdvertiseAddress", "",
			`is empty: set it to the host:port under which others reach this node, for example "localhost:47001"`)
	}
	if c.ListenAddress != "" {
		if err := checkAddress("ListenAddress", c.ListenAddress); err != nil {
			return err
		}
	}
	field, address := c.advertiseField()
	if err := checkAddress(field, address); err != nil {
		return err
	}
	return checkReachable(field, address)
}

// advertiseField returns the address to advertise, and the name of its field.
func (c Config) advertiseField() (field, address string) {
	if c.AdvertiseAddress != "" {
		return "AdvertiseAddress", c.AdvertiseAddress
	}
	return "ListenAddress", c.ListenAddress
}

// listenField returns the address to bind, and the name of its field.
func (c Config) listenField() (field, address string) {
	if c.ListenAddress != "" {
		return "ListenAddress", c.ListenAddress
	}
	return "AdvertiseAddress", c.AdvertiseAddress
}
