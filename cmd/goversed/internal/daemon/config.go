package daemon

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// Config configures a Daemon. Listen is required.
type Config struct {
	// Listen is the host:port on which the node serves gRPC; port 0 picks a free one.
	Listen string
	// Advertise is the host:port under which other nodes reach this one, and its name in the cluster. Empty
	// means Listen.
	Advertise string
	// HTTP is the host:port of the status API; port 0 picks a free one. Empty turns the API off.
	HTTP string

	// TLS names the files with which the node serves gRPC and calls other nodes; see package mtls. Host and
	// Logger are set here. The zero value means plain text.
	TLS mtls.Config

	// HTTPTLS names the files with which the status API is served over HTTPS. CAFile may be empty; it holds the
	// authorities for client certificates that may make admin calls. ServerOnly and Logger are set here. The
	// zero value means HTTP.
	HTTPTLS mtls.Config
	// Admin configures which clients may make admin calls over HTTP. With the zero value, admin calls are off
	// unless HTTPTLS has a CAFile.
	Admin Admin

	// EtcdTLS names the files for the connections to etcd. ForEtcd and Logger are set here. Default: the files
	// of the embedded etcd if one runs, otherwise none.
	EtcdTLS mtls.Config

	// Cluster configures the node's part in the cluster. If it has neither an EtcdAddress nor a Client, the
	// daemon runs and uses an embedded etcd, configured by Etcd. It uses that etcd in process if it is the only
	// member and there are no credentials, and otherwise over TCP, at the addresses of all members. HTTPAddress
	// and Logger are set here.
	Cluster cluster.Config
	// Etcd configures the embedded etcd, or this process's member of an etcd cluster. It is ignored unless one
	// runs.
	Etcd embedetcd.Config

	// StartTimeout limits how long the start may take. 0 means no limit.
	StartTimeout time.Duration
	// StopTimeout limits a graceful stop; what still runs after it is cut short. 0 means no limit.
	StopTimeout time.Duration
	// Logger receives one line per event that matters to an operator. Nil disables logging.
	Logger hclog.Logger
}

// Validate checks what can be checked without binding a port, reading a file or asking etcd. Its errors are one
// line and name goversed's flags.
func (c Config) Validate() error {
	if c.Listen == "" {
		return errors.New("--listen is empty: give the host:port of this node's gRPC, for example 127.0.0.1:47001")
	}
	// Check each flag separately, so that the error names the right one.
	if err := validateListen(c.Listen); err != nil {
		return newFlagError(err, "--listen %s: write host:port, like 127.0.0.1:47001, with a port from 0 to 65535", c.Listen)
	}
	if err := c.nodeConfig().Validate(); err != nil {
		if c.Advertise == "" {
			return newFlagError(err, "--listen %s: its host means nothing to other nodes; give --advertise with this machine's "+
				"name and port", c.Listen)
		}
		return newFlagError(err,
			"--advertise %s: write the host:port under which other nodes reach this one, like host1:47001",
			c.Advertise)
	}
	if c.HTTP != "" {
		if err := validateListen(c.HTTP); err != nil {
			return newFlagError(errors.Join(ErrHTTPAddress, err),
				"--http %s: write host:port, like 127.0.0.1:48001, with a port from 0 to 65535, or none", c.HTTP)
		}
	}
	if err := ValidateNodeTLS(c.TLS); err != nil {
		return err
	}
	if err := c.validateHTTP(); err != nil {
		return err
	}
	if c.StartTimeout < 0 || c.StopTimeout < 0 {
		return errors.New("--start-timeout and --stop-timeout must not be negative: 0 means no limit")
	}
	if c.embedsEtcd() {
		if err := c.Etcd.Validate(); err != nil {
			return newFlagError(err,
				"--etcd-listen %s: write host:port, like 127.0.0.1:2379; the host is an IP address of this "+
					"machine or localhost", c.Etcd.ListenClient)
		}
	}
	return c.Cluster.Validate()
}

// validateListen checks an address to listen at, without resolving its host.
func validateListen(address string) error {
	return node.Config{AdvertiseAddress: "localhost:1", ListenAddress: address}.Validate()
}

func (c Config) embedsEtcd() bool { return c.Cluster.EtcdAddress == "" && c.Cluster.Client == nil }

// dialsEtcd reports whether the node reaches the embedded etcd over TCP. With all members as endpoints, the node
// keeps working when its own member is cut off from the others. Logging in also requires TCP.
func (c Config) dialsEtcd() bool {
	return len(c.Etcd.Peers) > 0 || c.Cluster.Username != "" || c.Cluster.Credentials != nil
}

func (c Config) nodeConfig() node.Config {
	return node.Config{AdvertiseAddress: c.Advertise, ListenAddress: c.Listen}
}
