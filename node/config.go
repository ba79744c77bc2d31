package node

import (
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// Config says where a node listens and what it is called. The zero value is not
// enough: at least one of the two addresses is needed.
type Config struct {
	// AdvertiseAddress is the host:port under which others reach this node, and
	// its name in the cluster. The host must mean this machine to every other node,
	// so neither an empty host nor 0.0.0.0 or :: will do. That a name resolves is not
	// checked here: a cluster warns while it does not. Port 0 is replaced by the
	// port really bound. Empty: the same as ListenAddress.
	AdvertiseAddress string

	// ListenAddress is the host:port to bind, where it differs from the advertised
	// one: behind address translation, or ":47001" for every interface. Port 0
	// picks a free port. Empty: the same as AdvertiseAddress.
	ListenAddress string

	// ServerOptions are added to the gRPC server's own, after them, so they win. The own ones let one connection
	// have 16384 calls at a time, and a call 64 KiB of headers; messages have gRPC's limit, 4 MiB. Flow control windows
	// are of fixed size, 256 KiB for a stream and 16 MiB for a connection; a message that is longer is read in one go
	// all the same. Of one connection, 6 requests of unary calls are received at a time.
	// For TLS, give grpc.Creds here and the matching grpc.WithTransportCredentials
	// to callers of this node, Identify included.
	ServerOptions []grpc.ServerOption

	// Logger receives what the node has to say. Nil: nothing is logged.
	Logger hclog.Logger
}

const (
	maxStreams = 16384
	maxHeader  = 64 << 10
	// streamWorkers are goroutines for calls: one that is made for a call grows its stack each time anew, which takes a
	// tenth of a small call. While they are busy others are made all the same.
	streamWorkers = 64
	// How much of a stream, and of a connection, is on its way without having been read. With windows that do not
	// adapt, gRPC does not measure the connection by a ping beside nearly every message, which takes a tenth of a
	// small call. That of a stream is small, for each stream of a connection may be left unread; gRPC opens it for the
	// whole of a longer message once that is being read. That of a connection is opened again when bytes arrive.
	streamWindow = 256 << 10
	connWindow   = 16 << 20
)

// Validate checks the addresses without binding anything. Its errors are one line,
// name the field to change, and match ErrBadAddress.
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
	field, address := c.advertise()
	if err := checkAddress(field, address); err != nil {
		return err
	}
	return checkReachable(field, address)
}

// advertise returns the address to advertise, and the field that gave it.
func (c Config) advertise() (field, address string) {
	if c.AdvertiseAddress != "" {
		return "AdvertiseAddress", c.AdvertiseAddress
	}
	return "ListenAddress", c.ListenAddress
}

// listen returns the address to bind, and the field that gave it.
func (c Config) listen() (field, address string) {
	if c.ListenAddress != "" {
		return "ListenAddress", c.ListenAddress
	}
	return "AdvertiseAddress", c.AdvertiseAddress
}
