package cluster

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/etcdversion"
	"github.com/goverse/goverse/internal/logs/logqueue"
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

// connectEtcd creates the client, waits until etcd answers, and warns of servers that are too old.
func (c *Cluster) connectEtcd(ctx context.Context) (*clientv3.Client, error) {
	client, err := c.cfg.connectConfig(connect.SettingNamesOf(ctx)).AwaitAnswer(ctx, connect.Question{
		Ask: func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Get(ctx, c.keys.RangeStart(), clientv3.WithRange(c.keys.RangeEnd()), clientv3.WithCountOnly())
			return err
		},
		Timeout: c.cfg.RequestTimeout, Needs: c.requiredRights()})
	if err == nil {
		warnOldServers(ctx, c.cfg, client)
	}
	return client, err
}

// requiredRights describes the rights that a node's etcd user needs.
func (c *Cluster) requiredRights() string {
	return "READ and WRITE on the range " + c.keys.RangeStart() + " to " + c.keys.RangeEnd()
}

// warnOldServers logs a warning if a server can revoke leases that were renewed (etcd's issue 15247). Servers
// before 3.4.31 and 3.5.13 do so easily, later ones only in clusters of several members. P1 does not hold then.
func warnOldServers(ctx context.Context, cfg Config, client *clientv3.Client) {
	newest := ""
	for _, endpoint := range client.Endpoints() {
		attempt, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
		status, err := client.Status(attempt, endpoint)
		cancel()
		if err != nil {
			continue // at least one endpoint has answered before
		}
		newest = max(newest, status.Version)
		if etcdversion.RevokesRenewedLeases(status.Version) {
			cfg.Logger.Warn("this etcd can revoke leases that were renewed, so that two nodes may lead for a moment: "+
				etcdversion.UpgradeRemedy,
				"endpoint", endpoint, "version", status.Version)
			return
		}
	}
	if client.Cluster == nil {
		return // a client assembled from parts, without a Cluster
	}
	attempt, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
	defer cancel()
	if members, err := client.MemberList(attempt); err == nil && len(members.Members) > 1 {
		cfg.Logger.Info("a leader of this etcd that stood still for most of a TTL can revoke leases that were renewed: "+
			"guard writes with tokens",
			"version", newest, "members", len(members.Members))
	}
}
