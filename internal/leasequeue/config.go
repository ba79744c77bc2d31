package leasequeue

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// Config configures an [Engine]. Client and Keeper are required.
type Config struct {
	// Client reaches etcd. The engine never closes it.
	Client *clientv3.Client
	// Keeper provides the sessions. The entries' keys are attached to their leases.
	Keeper *etcdsession.Keeper
	// View, if set, is a member's mirror of its cluster. etcd may have ended another member's lease too early
	// (see package lingering); with a View, an entry that went with that lease is not replaced before its owner
	// must know that it is gone. Default: a key that is gone from etcd counts as released.
	View MemberView
	// RequestTimeout limits each request to etcd. Default 2 s.
	RequestTimeout time.Duration
	// Logger receives one line per event of interest to an operator. Default: none.
	Logger hclog.Logger
	// Random returns numbers in [0, 1) that spread retries in time. A simulation sets it to be reproducible. It
	// must be safe for concurrent use. Default: math/rand's.
	Random func() float64
}

// validate reports the first required field that is missing.
func (c Config) validate() error {
	switch {
	case c.Client == nil:
		return errors.New("Config.Client is nil; give it an etcd client")
	case c.Keeper == nil:
		return errors.New("Config.Keeper is nil; give it a session keeper that runs")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}
