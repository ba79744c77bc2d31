package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/state"
)

// The errors of Config.Validate, to test for with errors.Is.
var (
	ErrBadTTL         = errors.New("bad LeaderElectionTTL")
	ErrBadEtcdAddress = errors.New("bad EtcdAddress")
	ErrBadPrefix      = state.ErrBadPrefix
	ErrBadConfig      = errors.New("bad configuration")
)

// FallbackMode says what to do when the election itself cannot work.
type FallbackMode string

// The fallback modes.
const (
	// FallbackByName: the smallest address among the nodes whose election failed
	// leads. The default.
	FallbackByName FallbackMode = ""
	// FallbackNone: nobody leads until the election works again.
	FallbackNone FallbackMode = "none"
)

// Config configures a node's part in a cluster. The zero value works with an
// etcd at localhost:2379.
type Config struct {
	// EtcdAddress is one address of etcd, or several with commas between:
	// host:port, or http(s)://host:port. Default localhost:2379. Unused with
	// Client.
	EtcdAddress string
	// EtcdPrefix is where the cluster lies in etcd. All its nodes have the same.
	// Default /goverse.
	EtcdPrefix string
	// LeaderElectionTTL is the session's time-to-live in seconds: how long others
	// wait for a node that vanished. Default 10. etcd grants no less than 1.5
	// times its election time-out (2 s by default); what it granted counts.
	LeaderElectionTTL int

	// Client is a client of your own, for example that of an embedded etcd. The
	// cluster does not close it. Default: one is made from the fields here.
	Client *clientv3.Client
	// TLS is for the connections to etcd. Default: none, unless an address says
	// https.
	TLS *tls.Config
	// CurrentTLS, if set, is asked at each handshake with etcd, in place of TLS: for certificates that are
	// replaced while the node runs, as EtcdTLS of package mtls. It must not block.
	CurrentTLS func() (*tls.Config, error)
	// FixedEndpoints has EtcdAddress be the only addresses of etcd that are used, for etcd behind a proxy or a
	// load balancer. Otherwise, while one of them does not answer, the members of etcd are used at the addresses
	// that they advertise to clients, where they answer there.
	FixedEndpoints bool
	// Username and Password are for etcd's access control.
	Username, Password string
	// Credentials, if set, is asked at each log-in at etcd for the user and password, in place of
	// Username and Password: for passwords that change while the node runs. etcd forgets a user's
	// tokens when the password changes, so the new one must be there well before a TTL has passed.
	// It must not block.
	Credentials func() (username, password string, err error)
	// DialTimeout bounds one attempt to connect to etcd. Default 2 s.
	DialTimeout time.Duration
	// RequestTimeout bounds one request to etcd. Default 2 s.
	RequestTimeout time.Duration
	// WorkTimeout bounds how long a leader that gives way waits for the functions
	// in Lead to return. Default 5 s.
	WorkTimeout time.Duration
	// PreferAfter is how long a candidate of a higher priority stands in a named election
	// before the leadership is given to it; see election.Priority. Each who lets it pass goes
	// by its own. Default 5 s.
	PreferAfter time.Duration
	// OnceRetention is for how long it is remembered what became of an effect (see Once),
	// at the least; a mark takes some 350 bytes in etcd's database. Default 24 h; a minute or more.
	OnceRetention time.Duration
	// CrashDetection says how the death of another node's process is noticed before
	// its lease has run out. On by default.
	CrashDetection CrashDetection
	// DialOptions are for the connections to other nodes: where their servers use
	// TLS (node.Config.ServerOptions), the matching transport credentials.
	DialOptions []grpc.DialOption

	// Sharding says how this node takes part in the shards. It does by default.
	Sharding Sharding

	// Objects says how this node hosts objects, and calls them.
	Objects ObjectsConfig

	// Events says what this node does for the event log.
	Events EventLog

	// Observer registers this node without standing for election.
	Observer bool
	// Fallback says what to do when the election itself cannot work.
	Fallback FallbackMode

	// HTTPAddress is where this node serves HTTP, for others to know, and where package leaderonly sends
	// requests that are the leader's: host:port or a URL, with a host that others reach.
	HTTPAddress string
	// Labels and Weight are sent to the other nodes. Weight 0 is 1. Every node keeps the labels of all others:
	// together they have at most MaxLabels bytes.
	Labels map[string]string
	Weight int
	// Version is the program's, for people.
	Version string

	// Logger receives one line per event an operator cares about, and etcd's own
	// warnings. Default: none. It is called in one goroutine, for which nothing waits: where it does not
	// return, lines wait, up to a megabyte, then are lost; see Status.Log. Stop waits up to a second for the
	// last lines. A goroutine stays for as long as a call of it hangs.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.EtcdAddress == "" {
		c.EtcdAddress = "localhost:2379"
	}
	if c.EtcdPrefix == "" {
		c.EtcdPrefix = "/goverse"
	}
	if c.LeaderElectionTTL == 0 {
		c.LeaderElectionTTL = 10
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 2 * time.Second
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = member.DefaultRequestTimeout
	}
	if c.WorkTimeout == 0 {
		c.WorkTimeout = member.DefaultWorkTimeout
	}
	if c.PreferAfter == 0 {
		c.PreferAfter = 5 * time.Second
	}
	c.CrashDetection = CrashDetection(c.CrashDetection.settings())
	c.Sharding = c.Sharding.withDefaults()
	c.Events = c.Events.withDefaults()
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate reports what is wrong with the configuration, in one line that names
// the remedy. Zero values are fine.
func (c Config) Validate() error {
	c = c.withDefaults()
	if _, err := state.NewKeys(c.EtcdPrefix); err != nil {
		return err
	}
	if c.LeaderElectionTTL < 0 || c.LeaderElectionTTL > 24*60*60 {
		return fmt.Errorf("%w: %d s: give a number of seconds from 1 to 86400; 10 is a good one",
			ErrBadTTL, c.LeaderElectionTTL)
	}
	if err := checkAddresses(c.EtcdAddress); err != nil {
		return err
	}
	for name, d := range map[string]time.Duration{"DialTimeout": c.DialTimeout, "RequestTimeout": c.RequestTimeout,
		"WorkTimeout": c.WorkTimeout, "PreferAfter": c.PreferAfter} {
		if d < 0 {
			return fmt.Errorf("%w: %s is negative (%v); leave it 0 for the default", ErrBadConfig, name, d)
		}
	}
	if c.OnceRetention != 0 && c.OnceRetention < time.Minute {
		return fmt.Errorf("%w: OnceRetention is %v; give it a minute or more, or leave it 0 for 24h",
			ErrBadConfig, c.OnceRetention)
	}
	if err := c.CrashDetection.validate(ttlOf(c)); err != nil {
		return err
	}
	if err := c.Sharding.validate(); err != nil {
		return err
	}
	if err := c.Objects.validate(); err != nil {
		return err
	}
	if err := c.Events.validate(); err != nil {
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
	switch { // etcd's client would go on as nobody
	case c.Username != "" && c.Password == "" && c.Credentials == nil:
		return fmt.Errorf("%w: Username is %q and there is no Password: give both, or Credentials",
			ErrBadConfig, c.Username)
	case c.Username == "" && c.Password != "":
		return fmt.Errorf("%w: Password is set and Username is not: give both", ErrBadConfig)
	}
	if size := sizeOf(c.Labels); size > MaxLabels {
		return fmt.Errorf("%w: Labels have %d bytes together; give at most %d", ErrBadConfig, size, MaxLabels)
	}
	if c.Weight < 0 {
		return fmt.Errorf("%w: Weight is negative (%d); leave it 0 for 1", ErrBadConfig, c.Weight)
	}
	return nil
}

// MaxLabels is the length of all labels of a node, names and values together, in bytes.
const MaxLabels = 64 << 10

func sizeOf(labels map[string]string) (size int) {
	for name, value := range labels {
		size += len(name) + len(value)
	}
	return size
}

// checkAddresses reports what is wrong with the addresses of etcd.
func checkAddresses(addresses string) error {
	for address := range strings.SplitSeq(addresses, ",") {
		address = strings.TrimSpace(address)
		hostPort := address
		if scheme, rest, ok := strings.Cut(address, "://"); ok {
			if scheme != "http" && scheme != "https" {
				return fmt.Errorf("%w %q: the scheme is http or https", ErrBadEtcdAddress, address)
			}
			hostPort = strings.TrimSuffix(rest, "/")
		}
		host, port, err := net.SplitHostPort(hostPort)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 || host == "" ||
			strings.ContainsAny(host, " \t/") {
			return fmt.Errorf("%w %q: write host:port, as in localhost:2379, several with commas between",
				ErrBadEtcdAddress, address)
		}
	}
	return nil
}
