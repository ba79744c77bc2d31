package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/login"
	"github.com/goverse/goverse/internal/etcd/zaplog"
)

// Config says where etcd is, and how it is reached. The fields are those of cluster.Config, which checks
// them.
type Config struct {
	// Address is one address or several with commas between.
	Address string
	TLS     *tls.Config
	// CurrentTLS, if set, is asked at each handshake, in place of TLS. It must not block.
	CurrentTLS         func() (*tls.Config, error)
	Username, Password string
	Credentials        func() (username, password string, err error)
	// FixedEndpoints: only these addresses are used, wherever etcd's members are.
	FixedEndpoints bool
	// DialTimeout bounds one attempt to connect, and one log-in. Default 2 s.
	DialTimeout time.Duration
	// Logger gets etcd's own warnings, and what Await has to say. Default: none.
	Logger hclog.Logger
	// Words are what errors and the log call these settings. Default Fields.
	Words Words

	// given is a client that is there already: how it speaks TLS is not to be seen.
	given *clientv3.Client
}

// Through is a Config for a client that is there already, which Await does not close.
func Through(client *clientv3.Client, log hclog.Logger) Config {
	return Config{Address: strings.Join(client.Endpoints(), ","), Username: client.Username, Logger: log,
		Words: ofClient, given: client}
}

func (c Config) withDefaults() Config {
	if c.DialTimeout == 0 {
		c.DialTimeout = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Words == (Words{}) {
		c.Words = Fields
	}
	return c
}

// addresses are etcd's, at least one unless a client within the process was given.
func (c Config) addresses() []string {
	var out []string
	for address := range strings.SplitSeq(c.Address, ",") {
		if address = strings.TrimSpace(address); address != "" {
			out = append(out, address)
		}
	}
	return out
}

// Connect makes a client, which the caller closes. Without a user it does not connect yet. With one it logs
// in, and blocks until then, for DialTimeout at most or until ctx ends; to see why etcd does not answer can
// take two seconds per address more. Errors match ErrUnreachable, ErrNotEtcd or ErrDenied.
func (c Config) Connect(ctx context.Context) (*clientv3.Client, error) {
	c = c.withDefaults()
	var client *clientv3.Client
	err := c.ask(ctx, func(ctx context.Context) (err error) {
		client, err = c.dial(ctx)
		return err
	}, c.report(ctx).away)
	if err != nil {
		return nil, c.explain(ctx, err, "")
	}
	return client, nil
}

// currentTLS is what each handshake asks for its configuration, nil without TLS.
func (c Config) currentTLS() func() (*tls.Config, error) {
	if !c.secure() {
		return nil
	}
	return c.NowTLS
}

// NowTLS is the configuration for a connection that is made now, nil without one. A CurrentTLS that panics, or leaves
// its goroutine, has failed: gRPC makes no further attempt where that of its connection is gone.
func (c Config) NowTLS() (config *tls.Config, err error) {
	if c.CurrentTLS == nil {
		return c.TLS, nil
	}
	err = callback.Run(func() (err error) {
		config, err = c.CurrentTLS()
		return err
	})
	return config, err
}

// dial makes a client and logs in. Errors are problems with the user, and what etcd's client says.
func (c Config) dial(ctx context.Context) (*clientv3.Client, error) {
	if c.Credentials != nil {
		var err error
		if c.Username, c.Password, err = login.Ask(ctx, c.Credentials); err != nil {
			return nil, c.problem(noPassword, "", err)
		}
	}
	// The log-in ends with ctx, the client, which is made of the same context, does not.
	own, end := context.WithCancel(context.Background())
	detach := context.AfterFunc(ctx, end)
	links := newLinks()
	etcd := c.etcd(own, links)
	client, err := clientv3.New(etcd)
	detached := detach()
	if err == nil && detached {
		login.Attach(client, c.etcd(own, newLinks()), c.Credentials)
		c.attend(client, links)
		return client, nil
	}
	end()
	switch {
	case err == nil:
		_ = client.Close() // nothing was written
		return nil, ctx.Err()
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied):
		return nil, c.problem(userRefused, "", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, err
}

// etcd is the configuration of a client that ends with ctx, and whose connections links knows.
func (c Config) etcd(ctx context.Context, links *links) clientv3.Config {
	// etcd's client warns of every request that fails, also where failing is an answer, and with a
	// user calls it an error where one was given up; what matters of it is said here.
	var quiet []zap.Option
	if c.Logger.IsError() && !c.Logger.IsDebug() {
		quiet = append(quiet, zap.IncreaseLevel(zap.DPanicLevel))
	}
	return clientv3.Config{
		Context:     ctx,
		Endpoints:   c.addresses(),
		Username:    c.Username,
		Password:    c.Password,
		DialTimeout: c.DialTimeout,
		// A connection whose other side vanished is found out and left.
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zaplog.New(c.Logger.Named("etcd-client"), quiet...),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// etcd's return must be noticed within a second.
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: c.DialTimeout,
		}), grpc.WithTransportCredentials(&transport{links: links, current: c.currentTLS()})},
	}
}
