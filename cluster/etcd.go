package cluster

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/etcdversion"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// The errors of Start and NewEtcdClient where etcd is not available, to test for with errors.Is. Their text
// names the reason and the remedy.
var (
	// ErrEtcdUnreachable: etcd did not answer before the context of Start ended, or one side's
	// certificate is refused.
	ErrEtcdUnreachable = connect.ErrUnreachable
	// ErrEtcdDenied: etcd answered and refused the user, or Credentials failed.
	ErrEtcdDenied = connect.ErrDenied
	// ErrNotEtcd: another server answered where etcd should.
	ErrNotEtcd = connect.ErrNotEtcd
)

// NewEtcdClient makes a client as a cluster with this configuration makes it: for programs that look at a
// cluster from outside, which close it. Without a user it does not connect yet. With one it logs in: it
// blocks for DialTimeout at most, and if etcd does not answer for up to two seconds per address more, to see
// why. Errors match ErrBadEtcdAddress, ErrEtcdUnreachable, ErrEtcdDenied or ErrNotEtcd.
func NewEtcdClient(cfg Config) (*clientv3.Client, error) {
	cfg = cfg.withDefaults()
	if err := checkAddresses(cfg.EtcdAddress); err != nil {
		return nil, err
	}
	cfg.Client = nil
	return cfg.reach(connect.Fields).Connect(context.Background())
}

// reach is how this configuration reaches etcd, which w has words for.
func (c Config) reach(w connect.Words) connect.Config {
	if c.Client != nil {
		return connect.Through(c.Client, c.Logger)
	}
	return connect.Config{Address: c.EtcdAddress, TLS: c.TLS, CurrentTLS: c.CurrentTLS,
		FixedEndpoints: c.FixedEndpoints, Username: c.Username, Password: c.Password,
		Credentials: c.Credentials, DialTimeout: c.DialTimeout, Logger: logqueue.New(c.Logger), Words: w}
}

// connect makes the client, waits until etcd answers, and warns of servers that
// are too old.
func (c *Cluster) connect(ctx context.Context) (*clientv3.Client, error) {
	client, err := c.cfg.reach(connect.WordsOf(ctx)).Await(ctx, connect.Question{
		Ask: func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Get(ctx, c.keys.RangeStart(), clientv3.WithRange(c.keys.RangeEnd()), clientv3.WithCountOnly())
			return err
		},
		Timeout: c.cfg.RequestTimeout, Needs: c.needs()})
	if err == nil {
		warnOldServers(ctx, c.cfg, client)
	}
	return client, err
}

// needs are the rights of a node's user.
func (c *Cluster) needs() string {
	return "READ and WRITE on the range " + c.keys.RangeStart() + " to " + c.keys.RangeEnd()
}

// warnOldServers says which servers can revoke a lease although it was renewed (etcd's issue 15247): those
// before 3.4.31 and 3.5.13 easily, and of several members later ones, too. P1 does not hold then.
func warnOldServers(ctx context.Context, cfg Config, client *clientv3.Client) {
	newest := ""
	for _, endpoint := range client.Endpoints() {
		attempt, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
		status, err := client.Status(attempt, endpoint)
		cancel()
		if err != nil {
			continue // another one answered, or nothing would have come so far
		}
		newest = max(newest, status.Version)
		if etcdversion.RevokesRenewed(status.Version) {
			cfg.Logger.Warn("this etcd can revoke leases that were renewed, so that two nodes may lead for a moment: "+
				etcdversion.Upgrade,
				"endpoint", endpoint, "version", status.Version)
			return
		}
	}
	if client.Cluster == nil {
		return // a client that was put together of parts
	}
	attempt, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
	defer cancel()
	if members, err := client.MemberList(attempt); err == nil && len(members.Members) > 1 {
		cfg.Logger.Info("a leader of this etcd that stood still for most of a TTL can revoke leases that were renewed: "+
			"guard writes with tokens",
			"version", newest, "members", len(members.Members))
	}
}
