package clustertest

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster"
)

// Option alters how New makes a cluster.
type Option func(*options)

type options struct {
	ttl       int
	patience  time.Duration
	logger    hclog.Logger
	alter     []func(i int, cfg *cluster.Config)
	setUp     []func(i int, c *cluster.Cluster)
	distance  func(i int) time.Duration
	entrances bool
}

func defaults() options {
	return options{ttl: 2, patience: 10 * time.Second, logger: hclog.NewNullLogger()}
}

// WithTTL sets the sessions' time-to-live in seconds. Default 2; 1 is the
// smallest, and short for a busy machine.
func WithTTL(seconds int) Option { return func(o *options) { o.ttl = seconds } }

// WithPatience bounds every wait of the cluster. Default 10 s.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithLogger gives the nodes a logger; each gets one named by its number.
// Default: none.
func WithLogger(logger hclog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithConfig alters the configuration of each node, which is called with the
// node's number. What it sets for Client, EtcdAddress and EtcdPrefix does not
// count. It may be given several times.
func WithConfig(alter func(i int, cfg *cluster.Config)) Option {
	return func(o *options) { o.alter = append(o.alter, alter) }
}

// WithSetup is called with each node before it starts, and with the node's number: for what a program does between
// NewClusterWithNode and Start, such as registering services and objects. It may be given several times.
func WithSetup(setUp func(i int, c *cluster.Cluster)) Option {
	return func(o *options) { o.setUp = append(o.setUp, setUp) }
}
