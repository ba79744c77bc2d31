package cluster

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// Errors returned by Config.Validate. Test for them with errors.Is.
var (
	// ErrBadTTL is returned for a LeaderElectionTTL that is out of range.
	ErrBadTTL = errors.New("bad LeaderElectionTTL")
	// ErrBadEtcdAddress is returned for a malformed EtcdAddress.
	ErrBadEtcdAddress = connect.ErrBadAddress
	// ErrBadPrefix is returned for an EtcdPrefix that cannot be used.
	ErrBadPrefix = state.ErrBadPrefix
	// ErrBadConfig is returned for all other errors in the configuration.
	ErrBadConfig = errors.New("bad configuration")
)

// FallbackMode selects what the nodes do while the election itself cannot work.
type FallbackMode string

// The fallback modes.
const (
	// FallbackByName, the default, makes the node with the smallest address lead, among those with a failed
	// election.
	FallbackByName FallbackMode = ""
	// FallbackNone leaves the cluster without a leader until the election works again.
	FallbackNone FallbackMode = "none"
)

// Config configures a node's part in a cluster. The zero value works with an etcd at localhost:2379.
type Config struct {
	// EtcdAddress is one address of etcd, or several separated by commas: host:port, or http(s)://host:port.
	// Default localhost:2379. It is unused with Client.
	EtcdAddress string
	// EtcdPrefix is the prefix of the cluster's keys in etcd. It must be the same on all nodes of a cluster.
	// Default /goverse.
	EtcdPrefix string
	// LeaderElectionTTL is the session's time-to-live in seconds. It limits how long etcd may be away, and how long
	// others wait for a node that vanished if its CrashDetection.SilenceTimeout does not apply. Default 10. etcd grants
	// at least 1.5 times its own election time-out (2 s by default); the granted TTL applies.
	LeaderElectionTTL int

	// Client is an etcd client to use instead of one made from the fields below, for example that of an embedded
	// etcd. The cluster does not close it.
	Client *clientv3.Client
	// TLS configures the connections to etcd. Default: no TLS, unless an address says https.
	TLS *tls.Config
	// CurrentTLS, if set, replaces TLS and is called at each handshake with etcd. Use it for certificates that
	// change while the node runs, as with EtcdTLS of package mtls. It must not block.
	CurrentTLS func() (*tls.Config, error)
	// FixedEndpoints restricts the client to the addresses in EtcdAddress, for an etcd behind a proxy or a load
	// balancer. Otherwise, while one of those addresses does not answer, the client also uses the addresses that
	// the members of etcd advertise, where they answer.
	FixedEndpoints bool
	// Username and Password are the credentials for etcd's access control.
	Username, Password string
	// Credentials, if set, replaces Username and Password and is called at each log-in at etcd. Use it for
	// passwords that change while the node runs. etcd invalidates a user's tokens when the password changes, so
	// Credentials must return the new one well before a TTL has passed. It must not block, and must be safe for
	// concurrent use.
	Credentials func() (username, password string, err error)
	// DialTimeout limits one attempt to connect to etcd. Default 2 s.
	DialTimeout time.Duration
	// RequestTimeout limits one request to etcd. Default 2 s.
	RequestTimeout time.Duration
	// WorkTimeout limits how long a leader that gives way waits for the functions in Lead to return. Default 5 s.
	WorkTimeout time.Duration
	// PreferAfter is the time that a candidate of a higher priority must wait in the queue of a named election
	// before others let it pass; see leaderelection.Priority. Each candidate that lets it pass applies its own
	// PreferAfter. Default 5 s.
	PreferAfter time.Duration
	// OnceRetention is the minimum time for which the outcome of an effect (see Once) is remembered. Each outcome
	// takes some 350 bytes in etcd's database. Default 24 h; at least a minute.
	OnceRetention time.Duration
	// CrashDetection configures how the death of another node's process is detected before its lease has run out.
	// It is on by default.
	CrashDetection CrashDetection
	// DialOptions apply to connections to other nodes. If their servers use TLS (node.Config.ServerOptions), they
	// must include matching transport credentials.
	DialOptions []grpc.DialOption

	// Sharding configures this node's part in the shards. By default the node takes part.
	Sharding Sharding

	// Objects configures how this node hosts and calls objects.
	Objects ObjectsConfig

	// Events configures what this node records in the event log.
	Events EventLog

	// Observer registers this node without making it a candidate for leadership.
	Observer bool
	// Fallback selects what this node does while the election itself cannot work.
	Fallback FallbackMode

	// HTTPAddress is the address at which this node serves HTTP: host:port or a URL, with a host that other nodes
	// can reach. Other nodes see it, and package leaderonly forwards to it requests that only the leader may
	// answer.
	HTTPAddress string
	// Labels and Weight are published to the other nodes. Weight 0 means 1. Every node keeps the labels of all
	// others in memory; those of one node may have MaxLabels bytes together.
	Labels map[string]string
	Weight int
	// Version is the version of the program, for display.
	Version string

	// Logger receives one line per event of interest to an operator, and etcd's own warnings. Default: none. It
	// is called from one goroutine that nothing waits for. If a call hangs, up to a megabyte of lines waits, and
	// further lines are lost; see Status.Log. Stop waits up to a second for the last lines. The goroutine stays
	// for as long as a call hangs.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	c.EtcdAddress = cmp.Or(c.EtcdAddress, "localhost:2379")
	c.EtcdPrefix = cmp.Or(c.EtcdPrefix, "/goverse")
	c.LeaderElectionTTL = cmp.Or(c.LeaderElectionTTL, 10)
	c.DialTimeout = cmp.Or(c.DialTimeout, 2*time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 2*time.Second)
	c.WorkTimeout = cmp.Or(c.WorkTimeout, 5*time.Second)
	c.PreferAfter = cmp.Or(c.PreferAfter, 5*time.Second)
	c.CrashDetection = c.CrashDetection.withDefaults(ttlOf(c))
	c.Sharding = c.Sharding.withDefaults()
	c.Objects = c.Objects.withDefaults()
	c.Events = c.Events.withDefaults()
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate checks the configuration and returns a one-line error that names the remedy. Zero values are valid.
func (c Config) Validate() error {
	c = c.withDefaults()
	if _, err := state.NewKeys(c.EtcdPrefix); err != nil {
		return err
	}
	if c.LeaderElectionTTL < 0 || c.LeaderElectionTTL > 24*60*60 {
		return fmt.Errorf("%w: %d s: give a number of seconds from 1 to 86400; 10 is a good one",
			ErrBadTTL, c.LeaderElectionTTL)
	}
	if err := connect.CheckAddresses(c.EtcdAddress); err != nil {
		return err
	}
	if c.OnceRetention != 0 && c.OnceRetention < time.Minute {
		return fmt.Errorf("%w: OnceRetention is %v; give it a minute or more, or leave it 0 for 24h",
			ErrBadConfig, c.OnceRetention)
	}
	if err := cmp.Or(
		checkNotNegative("DialTimeout", c.DialTimeout),
		checkNotNegative("RequestTimeout", c.RequestTimeout),
		checkNotNegative("WorkTimeout", c.WorkTimeout),
		checkNotNegative("PreferAfter", c.PreferAfter),
		c.CrashDetection.validate(ttlOf(c)), c.Sharding.validate(), c.Objects.validate(), c.Events.validate(),
	); err != nil {
		return err
	}
	switch c.Fallback {
	case FallbackByName, FallbackNone:
	default:
		return fmt.Errorf("%w: Fallback %q: use FallbackByName or FallbackNone", ErrBadConfig, c.Fallback)
	}
	if c.TLS != nil && c.CurrentTLS != nil {
		return fmt.Errorf("%w: TLS and CurrentTLS are both set: give one of them", ErrBadConfig)
	}
	switch { // etcd's client would connect without a user
	case c.Username != "" && c.Password == "" && c.Credentials == nil:
		return fmt.Errorf("%w: Username is %q and there is no Password: give both, or Credentials",
			ErrBadConfig, c.Username)
	case c.Username == "" && c.Password != "":
		return fmt.Errorf("%w: Password is set and Username is not: give both", ErrBadConfig)
	}
	if size := labelBytes(c.Labels); size > MaxLabels {
		return fmt.Errorf("%w: Labels have %d bytes together; give at most %d", ErrBadConfig, size, MaxLabels)
	}
	if c.Weight < 0 {
		return fmt.Errorf("%w: Weight is negative (%d); leave it 0 for 1", ErrBadConfig, c.Weight)
	}
	return nil
}

// MaxLabels limits the length of all labels of a node in bytes, names and values together.
const MaxLabels = 64 << 10

func labelBytes(labels map[string]string) (size int) {
	for name, value := range labels {
		size += len(name) + len(value)
	}
	return size
}

// checkNotNegative returns an error if the value of a setting is negative.
func checkNotNegative[T ~int | ~int64](name string, value T) error {
	if value < 0 {
		return fmt.Errorf("%w: %s is negative (%v); leave it 0 for the default", ErrBadConfig, name, value)
	}
	return nil
}
