package clustertest

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster"
)

// Option configures a cluster that New creates.
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

func defaultOptions() options {
	return options{ttl: 10, patience: 30 * time.Second, logger: hclog.NewNullLogger()}
}

// WithTTL sets the sessions' time-to-live in seconds. The default is 10. Less makes a test of an expiry faster, and is
// short for a busy machine: a session that is not renewed in time is lost. The minimum is 1.
func WithTTL(seconds int) Option { return func(o *options) { o.ttl = seconds } }

// WithPatience limits every wait of the cluster. The default is 30 s.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithLogger sets the nodes' logger; each node gets a sub-logger named by its number. By default nothing is
// logged.
func WithLogger(logger hclog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithConfig registers a function that alters each node's configuration; i is the node's number. New overwrites
// Client, EtcdAddress and EtcdPrefix. The option may be given several times.
func WithConfig(alter func(i int, cfg *cluster.Config)) Option {
	return func(o *options) { o.alter = append(o.alter, alter) }
}

// WithSetup registers a function that is called with each node before it starts; i is the node's number. It
// does the work of a program between NewClusterWithNode and Start, such as registering services and objects.
// The option may be given several times.
func WithSetup(setUp func(i int, c *cluster.Cluster)) Option {
	return func(o *options) { o.setUp = append(o.setUp, setUp) }
}
