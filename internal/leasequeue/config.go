package leasequeue

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// Config is what an engine needs. Client and Keeper are required.
type Config struct {
	// Client reaches etcd. It is never closed.
	Client *clientv3.Client
	// Keeper has the session that all entries stand on.
	Keeper *etcdsession.Keeper
	// View, if set, is a member's mirror of its cluster. With it, a key that went with another member's
	// lease is not taken over from before that member must know of it: etcd may have ended the lease too
	// early (see package lingering). Default: what is gone from etcd was given up.
	View View
	// RequestTimeout bounds each request to etcd. Default 2 s.
	RequestTimeout time.Duration
	// Logger gets one line per event an operator cares about. Default: none.
	Logger hclog.Logger
	// Random draws the numbers in [0, 1) by which retries get out of step, for a simulation that is to
	// come out the same again. It must be safe for concurrent use. Default: math/rand's.
	Random func() float64
}

// validate reports what is wrong with the configuration.
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
