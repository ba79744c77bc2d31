package cluster

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/member/registration"
)

// Errors of Start and NewEtcdClient while etcd is not available. Test for them with errors.Is. Their text names
// the reason and the remedy.
var (
	// ErrEtcdUnreachable is returned when etcd did not answer before the context of Start ended, or when one side
	// refused the other's certificate.
	ErrEtcdUnreachable = connect.ErrUnreachable
	// ErrEtcdDenied is returned when etcd answered and refused the user, or when Credentials failed.
	ErrEtcdDenied = connect.ErrDenied
	// ErrNotEtcd is returned when a server that is not etcd answered at the address.
	ErrNotEtcd = connect.ErrNotEtcd
)

// NewEtcdClient returns an etcd client as a cluster with this configuration creates it, for programs outside of
// the cluster. The caller must close it. Without a user it does not connect yet. With one it logs in and blocks
// for at most DialTimeout; if etcd does not answer, it blocks up to two more seconds per address to find out the
// reason. Errors match ErrBadEtcdAddress, ErrEtcdUnreachable, ErrEtcdDenied or ErrNotEtcd.
func NewEtcdClient(cfg Config) (*clientv3.Client, error) {
	cfg = cfg.withDefaults()
	if err := connect.CheckAddresses(cfg.EtcdAddress); err != nil {
		return nil, err
	}
	cfg.Client = nil
	return cfg.connectConfig(connect.FieldNames).Connect(context.Background())
}

// connectConfig returns the settings for reaching etcd; w supplies the words for its errors.
func (c Config) connectConfig(w connect.SettingNames) connect.Config {
	if c.Client != nil {
		return connect.ForClient(c.Client, c.Logger)
	}
	return connect.Config{Address: c.EtcdAddress, TLS: c.TLS, CurrentTLS: c.CurrentTLS,
		FixedEndpoints: c.FixedEndpoints, Username: c.Username, Password: c.Password,
		Credentials: c.Credentials, DialTimeout: c.DialTimeout, Logger: logqueue.New(c.Logger), SettingNames: w}
}

// connectEtcd creates the client and waits until etcd answers.
func (c *Cluster) connectEtcd(ctx context.Context) (*clientv3.Client, error) {
	return registration.AwaitEtcd(ctx, c.cfg.connectConfig(connect.SettingNamesOf(ctx)),
		etcd.Process{Keys: c.keys, RequestTimeout: c.cfg.RequestTimeout, Logger: c.log},
		registration.RequiredRights(c.keys))
}
