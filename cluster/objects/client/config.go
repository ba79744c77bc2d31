package client

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// ErrBadConfig is matched by the errors of Config.Validate.
var ErrBadConfig = errors.New("client: bad configuration")

// Config configures a [Client]. Addresses is required; all other fields are optional.
type Config struct {
	// Addresses lists advertise addresses of nodes, as host:port. One node that runs when Dial is called is
	// enough; the client learns the others from it. A name may resolve to several nodes. The addresses are
	// tried in random order.
	Addresses []string
	// Prefix is the cluster's prefix, as in cluster.Config.EtcdPrefix. Nodes of other clusters are rejected.
	// Default: the prefix of the first node that answers, which then stays the same.
	Prefix string
	// DialOptions apply to the connections to the nodes. If the nodes serve TLS, they must contain matching
	// transport credentials, for example from package node/mtls. They follow the client's own options and
	// override them. Default: plain text and no proxies.
	DialOptions []grpc.DialOption

	// CallTimeout is the deadline of unary calls that have none, and limits the opening of a stream without a
	// deadline. Default 30 s.
	CallTimeout time.Duration
	// MaxMessage limits the size of the request and of the response of a unary call, in bytes. A call that
	// exceeds it fails with RESOURCE_EXHAUSTED. It should equal the nodes' cluster.ObjectsConfig.MaxMessage.
	// Default 4 MiB.
	MaxMessage int
	// Idempotent lists unary methods that may be repeated although they may have run already, by their full
	// names, as "/package.Service/Method". If the node of such a call is lost, the call is sent to the next
	// owner within its deadline.
	Idempotent []string

	// UnaryInterceptors and StreamInterceptors wrap each call made by Client.At; the first is outermost. The
	// connection passed to them is not that of the call. Interceptors in DialOptions wrap the client's own
	// streams instead, of which one carries many calls.
	UnaryInterceptors  []grpc.UnaryClientInterceptor
	StreamInterceptors []grpc.StreamClientInterceptor

	// Logger gets a line when the routes come from another node, when no node answers, and when a connection to
	// a node is lost. Default: none.
	Logger hclog.Logger
}

// Validate checks the configuration without asking a node. Its errors are one line, name the field, and match
// ErrBadConfig.
func (c Config) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrBadConfig, fmt.Errorf(format, args...))
	}
	if len(c.Addresses) == 0 {
		return bad("Addresses is empty: name at least one node, as host:port")
	}
	for _, a := range c.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return bad("Addresses has %q: write it as host:port", a)
		}
	}
	if p := c.Prefix; p != "" && (!strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/")) {
		return bad("Prefix is %q: it begins with a slash and does not end with one, like /goverse", p)
	}
	if c.CallTimeout < 0 {
		return bad("CallTimeout is negative (%v): leave it 0 for the default", c.CallTimeout)
	}
	if c.MaxMessage < 0 {
		return bad("MaxMessage is negative (%d): leave it 0 for the default", c.MaxMessage)
	}
	for _, m := range c.Idempotent {
		if parts := strings.Split(m, "/"); len(parts) != 3 || parts[0] != "" || parts[1] == "" || parts[2] == "" {
			return bad("Idempotent has %q: write the full name, as /package.Service/Method", m)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.CallTimeout == 0 {
		c.CallTimeout = 30 * time.Second
	}
	c.Logger = logqueue.New(c.Logger)
	return c
}
