// Package etcd has what all parts of one process share on their way to etcd.
package etcd

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/state"
)

// DefaultTimeout limits one request to etcd, and one attempt to connect.
const DefaultTimeout = 2 * time.Second

// Process holds what belongs to the process and is the same for all its parts. The configurations of the parts embed
// it. Client is required, and Keys where a part uses the cluster's keys.
type Process struct {
	// Client reaches etcd. No part closes it.
	Client *clientv3.Client
	// Keys names the cluster's keys.
	Keys state.Keys
	// Address is the address at which other processes reach this one, and the name of its record. It is empty in a
	// process that is no member.
	Address string
	// RequestTimeout limits each request to etcd, except those of sessions and of crash detection, whose limits follow
	// from the lease. Default: DefaultTimeout.
	RequestTimeout time.Duration
	// Clock reads both clocks of deadlines. It must not block. Default: the clocks of this machine.
	Clock func() deadline.Instant
	// Random returns a number in [0, 1), which spreads retries in time. Simulations set it to be reproducible. It
	// must be safe for concurrent use. Default: rand.Float64.
	Random func() float64
	// Logger receives one line per event of interest to an operator. Default: none.
	Logger hclog.Logger
}

// WithDefaults returns p with defaults in place of zero fields.
func (p Process) WithDefaults() Process {
	p.RequestTimeout = cmp.Or(p.RequestTimeout, DefaultTimeout)
	p.Logger = cmp.Or(p.Logger, hclog.NewNullLogger())
	if p.Clock == nil {
		p.Clock = deadline.Now
	}
	if p.Random == nil {
		p.Random = rand.Float64
	}
	return p
}

// Named returns p with a logger of that name.
func (p Process) Named(name string) Process {
	p.Logger = p.WithDefaults().Logger.Named(name)
	return p
}
