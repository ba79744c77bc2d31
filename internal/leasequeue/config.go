package leasequeue

import (
	"errors"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// Config configures an [Engine]. Client and Keeper are required.
type Config struct {
	etcd.Process
	// Keeper provides the sessions. The entries' keys are attached to their leases.
	Keeper *etcdsession.Keeper
	// View, if set, is a member's mirror of its cluster. etcd may have ended another member's lease too early
	// (see package lingering); with a View, an entry that went with that lease is not replaced before its owner
	// must know that it is gone. Default: a key that is gone from etcd counts as released.
	View MemberView
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
