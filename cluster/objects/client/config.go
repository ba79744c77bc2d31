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

// Config says which cluster to call, and how. Addresses are required; all else can be left out.
type Config struct {
	// Addresses are advertise addresses of nodes, as host:port: one that runs when Dial is called is enough, the
	// others are learned from it. A name that resolves to several nodes will do as well. They are asked in random
	// order.
	Addresses []string
	// Prefix is the cluster's, as in cluster.Config.EtcdPrefix. Nodes of another one are not taken for the cluster's
	// own. Default: that of the first node that answers; from then on it is the same.
	Prefix string
	// DialOptions are for the connections to the nodes: where these serve TLS, the matching transport credentials, as
	// from package node/mtls. They come after the client's own, so they win. Default: plain text, and no proxies.
	DialOptions []grpc.DialOption

	// CallTimeout is the deadline of unary calls that have none, and for how long the opening of a stream without a
	// deadline may take. Default 30 s.
	CallTimeout time.Duration
	// MaxMessage is how many bytes the request or response of a unary call may have; a call with a longer one fails
	// with RESOURCE_EXHAUSTED. It should be the nodes' cluster.ObjectsConfig.MaxMessage. Default 4 MiB.
	MaxMessage int
	// Idempotent are full names of unary methods, as "/package.Service/Method", of which a call may be repeated
	// although it may have run: one whose node was lost is sent to the next owner within its deadline.
	Idempotent []string

	// UnaryInterceptors and StreamInterceptors are around each call made by Client.At, the first one outermost. The
	// connection that they are given is not that of the call. Interceptors among DialOptions are around what the
	// client sends, which is another matter: many calls are one stream.
	UnaryInterceptors  []grpc.UnaryClientInterceptor
	StreamInterceptors []grpc.StreamClientInterceptor

	// Logger gets a line when the routes come from another node, when no node answers, and when a connection to one
	// was lost. Default: none.
	Logger hclog.Logger
}

// Validate checks what can be checked without asking a node. Its errors are one line, name the field, and match
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
	c.Logger = logqueue.New(c.Logger)
	return c
}
