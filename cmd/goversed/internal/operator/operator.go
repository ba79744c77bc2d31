package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cmd/goversed/internal/prefixes"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// connectTimeout limits the first request to etcd of an operation that may take longer.
const connectTimeout = 5 * time.Second

// ErrNoNodes is returned when no node is registered, most often because of a wrong prefix.
var ErrNoNodes = errors.New("no node is registered")

// noNodesError returns ErrNoNodes. Where is "under PREFIX" or "in the schema SCHEMA".
func noNodesError(where string) error {
	flag := "--prefix"
	if !strings.HasPrefix(where, "under ") {
		flag = "--schema and the database in --postgres"
	}
	return fmt.Errorf("%w %s: check %s", ErrNoNodes, where, flag)
}

func (o *Operator) explainNoNodes(ctx context.Context) error {
	return otherPrefixesError(o.keys.Prefix(), prefixes.Find(ctx, o.client, o.keys.Prefix()).Prefixes)
}

// otherPrefixesError returns ErrNoNodes, and names the other prefixes that have nodes.
func otherPrefixesError(prefix string, others []prefixes.Prefix) error {
	if len(others) == 0 {
		return noNodesError("under " + prefix)
	}
	names := make([]string, 0, len(others))
	for _, p := range others {
		names = append(names, p.String())
	}
	return fmt.Errorf("%w; in this etcd there is %s", noNodesError("under "+prefix), strings.Join(names, ", "))
}

func (o *Operator) requireNodes(ctx context.Context, s *state.Snapshot) error {
	if len(s.Members) == 0 {
		return o.explainNoNodes(ctx)
	}
	return nil
}

// Operator is a connection to the etcd of one cluster. Its methods are safe for concurrent use.
type Operator struct {
	client *clientv3.Client
	etcd   connect.Config
	keys   state.Keys
}

// Etcd returns the configuration with which goversed connects to the etcd of cfg. Errors name flags.
func Etcd(cfg cluster.Config) connect.Config {
	return connect.Config{Address: cfg.EtcdAddress, TLS: cfg.TLS, CurrentTLS: cfg.CurrentTLS,
		FixedEndpoints: cfg.FixedEndpoints, Username: cfg.Username, Password: cfg.Password,
		Credentials: cfg.Credentials, DialTimeout: cfg.DialTimeout, Logger: cfg.Logger, SettingNames: connect.FlagNames}
}

// Option changes a setting of an Operator.
type Option func(*Operator)

// OnWait makes an Operator call wait, instead of logging a warning, once a request has waited for etcd for half a
// second or somewhat more; see connect.Config.OnWait.
func OnWait(wait func(finding string, left time.Duration)) Option {
	return func(o *Operator) { o.etcd.OnWait = wait }
}

// Open checks the configuration and creates the client. With a user it also logs in to etcd, within timeout or until
// ctx ends. Errors about the configuration match those of cluster.Config; others match cluster.ErrEtcdUnreachable,
// cluster.ErrEtcdDenied or cluster.ErrNotEtcd.
func Open(ctx context.Context, cfg cluster.Config, timeout time.Duration, opts ...Option) (*Operator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	keys, err := state.NewKeys(cfg.EtcdPrefix)
	if err != nil {
		return nil, err
	}
	cfg.DialTimeout = timeout
	o := &Operator{etcd: Etcd(cfg), keys: keys}
	for _, opt := range opts {
		opt(o)
	}
	if o.client, err = o.etcd.Connect(ctx); err != nil {
		return nil, err
	}
	return o, nil
}

// Close ends the connection.
func (o *Operator) Close() error {
	if err := o.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the connection to etcd: %w", err)
	}
	return nil
}

// Read reads the cluster once. It retries until ctx ends, but fails early if the server cannot be etcd. If
// there is no node but other prefixes have nodes, it fails with ErrNoNodes and names them. Other errors match
// cluster.ErrEtcdUnreachable, cluster.ErrEtcdDenied or cluster.ErrNotEtcd if that is the reason.
func (o *Operator) Read(ctx context.Context) (Details, error) {
	snap, err := o.read(ctx)
	if err != nil {
		return Details{}, err
	}
	if len(snap.Members) == 0 && len(snap.Queue) == 0 {
		if others := prefixes.Find(ctx, o.client, o.keys.Prefix()).Prefixes; len(others) > 0 {
			return Details{}, otherPrefixesError(o.keys.Prefix(), others)
		}
	}
	return newDetails(snap), nil
}

func (o *Operator) read(ctx context.Context) (*state.Snapshot, error) {
	var snap *state.Snapshot
	err := o.etcd.Ask(ctx, "READ"+o.clusterRange(), func(ctx context.Context) (err error) {
		snap, err = watchcache.ReadSnapshot(ctx, o.client, o.keys)
		return err
	})
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// explain adds a remedy to an error from etcd, or to its silence.
func (o *Operator) explain(ctx context.Context, err error) error {
	return o.etcd.Explain(ctx, err, "READ and WRITE"+o.clusterRange())
}

// clusterRange names the range of the cluster's own keys.
func (o *Operator) clusterRange() string {
	return " on the range " + o.keys.RangeStart() + " to " + o.keys.RangeEnd()
}
