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
	"github.com/goverse/goverse/internal/etcd/endpoints"
	"github.com/goverse/goverse/internal/etcd/login"
	"github.com/goverse/goverse/internal/etcd/zaplog"
)

// Config names etcd's addresses and the credentials to reach it with. Its fields mirror those of cluster.Config,
// which validates them.
type Config struct {
	// Address is one address, or several separated by commas.
	Address string
	TLS     *tls.Config
	// CurrentTLS, if set, replaces TLS: it is called at each handshake. It must not block.
	CurrentTLS         func() (*tls.Config, error)
	Username, Password string
	Credentials        func() (username, password string, err error)
	// FixedEndpoints restricts the client to these addresses, wherever etcd's members are.
	FixedEndpoints bool
	// DialTimeout limits one attempt to connect, and the log-in of Connect. A later log-in takes as long as its caller
	// waits. Default 2 s.
	DialTimeout time.Duration
	// Logger receives etcd's own warnings and the messages of AwaitAnswer. Default: none.
	Logger hclog.Logger
	// SettingNames names these settings in errors and in the log. Default FieldNames.
	SettingNames SettingNames
	// OnWait, if set, replaces the warnings of Connect and Ask. It is called while a request has no answer: when the
	// cause is found, and 0.8 s after its start at the latest. Finding is the cause with the remedy, "" if it is not
	// known yet; left is the time that the request may still take, 0 if it has no limit. OnWait may be called several
	// times, also concurrently. It must not block.
	OnWait func(finding string, left time.Duration)

	// client is an existing client. If it is foreign, its TLS configuration is not accessible.
	client  *clientv3.Client
	foreign bool

	// Only tests set these two; 0 means the default.
	diagnoseAfter time.Duration // the time that etcd has to answer before the addresses are examined for a cause
	stepTimeout   time.Duration // limits each of the four steps of examining one address
}

// ForMade returns the settings with the client that their Connect has made, which AwaitAnswer uses and does not close.
func (c Config) ForMade(client *clientv3.Client) Config {
	c.client = client
	return c
}

// ForClient returns a Config for an existing client, which AwaitAnswer does not close.
func ForClient(client *clientv3.Client, log hclog.Logger) Config {
	return Config{Address: strings.Join(client.Endpoints(), ","), Username: client.Username, Logger: log,
		SettingNames: clientNames, client: client, foreign: true}
}

func (c Config) withDefaults() Config {
	if c.DialTimeout == 0 {
		c.DialTimeout = 2 * time.Second
	}
	if c.diagnoseAfter == 0 {
		c.diagnoseAfter = defaultDiagnoseAfter
	}
	if c.stepTimeout == 0 {
		c.stepTimeout = defaultStepTimeout
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.SettingNames == (SettingNames{}) {
		c.SettingNames = FieldNames
	}
	return c
}

// addresses returns etcd's addresses: at least one, except for a given client within the process.
func (c Config) addresses() []string {
	var out []string
	for address := range strings.SplitSeq(c.Address, ",") {
		if address = strings.TrimSpace(address); address != "" {
			out = append(out, address)
		}
	}
	return out
}

// Connect returns a new client, which the caller closes. Without a user it does not connect yet. With a user it
// logs in, and blocks until that is done, for DialTimeout at most or until ctx ends. Finding out why etcd does
// not answer can take two more seconds per address. Errors match ErrUnreachable, ErrNotEtcd or ErrDenied.
func (c Config) Connect(ctx context.Context) (*clientv3.Client, error) {
	c = c.withDefaults()
	var client *clientv3.Client
	err := c.runQuestion(ctx, func(ctx context.Context) (err error) {
		client, err = c.dialClient(ctx)
		return err
	}, c.newOutageLog(ctx))
	if err != nil {
		return nil, c.explain(ctx, err, "")
	}
	return client, nil
}

// currentTLS returns the function that provides the configuration of each handshake, nil without TLS.
func (c Config) currentTLS() func() (*tls.Config, error) {
	if !c.usesTLS() {
		return nil
	}
	return c.HandshakeTLS
}

// HandshakeTLS returns the TLS configuration for a connection that is made now, nil if there is none. It returns an
// error if CurrentTLS panics or ends its goroutine: if gRPC's goroutine for the connection ended, gRPC would
// never try again.
func (c Config) HandshakeTLS() (config *tls.Config, err error) {
	if c.CurrentTLS == nil {
		return c.TLS, nil
	}
	err = callback.Run(func() (err error) {
		config, err = c.CurrentTLS()
		return err
	})
	return config, err
}

// dialClient makes a client and logs in. It returns a problem if the user is refused, and otherwise the error of
// etcd's client.
func (c Config) dialClient(ctx context.Context) (*clientv3.Client, error) {
	if c.Credentials != nil {
		var err error
		if c.Username, c.Password, err = login.AskCredentials(ctx, c.Credentials); err != nil {
			return nil, c.newProblem(noPassword, "", err)
		}
	}
	// The client logs in within its own context, which must end with ctx until then and outlive it afterwards.
	own, end := context.WithCancel(context.Background())
	detach := context.AfterFunc(ctx, end)
	links := newConnTracker()
	etcd := c.clientConfig(own, links)
	client, err := clientv3.New(etcd)
	detached := detach()
	if err == nil && detached {
		login.ReplaceAuth(client, c.clientConfig(own, newConnTracker()), c.Credentials)
		c.monitorClient(client, links)
		return client, nil
	}
	end()
	switch {
	case err == nil:
		_ = client.Close() // nothing was written
		return nil, ctx.Err()
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied):
		return nil, c.newProblem(userRefused, "", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, err
}

// clientConfig returns the configuration of a client that ends with ctx and reports its connections to links.
func (c Config) clientConfig(ctx context.Context, links *connTracker) clientv3.Config {
	// etcd's client warns about every request that fails, even if failure is a normal answer, and with a user
	// it logs canceled requests as errors. Goverse itself logs the failures that matter.
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
		// Keepalives detect connections with a peer that has vanished.
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zaplog.New(c.Logger.Named("etcd-client"), quiet...),
		DialOptions: append(endpoints.DialOptions(), grpc.WithConnectParams(grpc.ConnectParams{
			// The client must notice within a second that etcd is back.
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: c.DialTimeout,
		}), grpc.WithTransportCredentials(&currentCredentials{tracker: links, currentTLS: c.currentTLS()})),
	}
}
