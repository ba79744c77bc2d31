package peer

import (
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
)

// Config configures a node. Its fields are described at the public Config of package node.
type Config struct {
	AdvertiseAddress, ListenAddress string

	ServerOptions []grpc.ServerOption
	Logger        hclog.Logger
}

const (
	maxStreams = 16384
	maxHeader  = 64 << 10
	// streamWorkers is the number of goroutines kept for calls. A goroutine created for a call has to grow its
	// stack, which costs a tenth of a small call. If all are busy, gRPC creates others.
	streamWorkers = 64
)

// Validate checks the addresses without binding them.
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
