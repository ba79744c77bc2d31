package registration

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/etcdversion"
	"github.com/goverse/goverse/internal/state"
)

// AwaitEtcd waits until etcd lets this process read the cluster's range, and returns the client; see
// [connect.Config.AwaitAnswer]. It warns of servers that can revoke leases that were renewed. Of p it uses the keys,
// the time-out and the logger. needs names the rights that this process needs.
func AwaitEtcd(ctx context.Context, connection connect.Config, p etcd.Process, needs string) (*clientv3.Client,
	error) {
	client, err := connection.AwaitAnswer(ctx, connect.Question{
		Ask: func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Get(ctx, p.Keys.RangeStart(), clientv3.WithRange(p.Keys.RangeEnd()), clientv3.WithCountOnly())
			return err
		},
		Timeout: p.RequestTimeout, Needs: needs})
	if err == nil {
		warnOldServers(ctx, p, client)
	}
	return client, err
}

// RequiredRights names the rights that the etcd user of a node needs.
func RequiredRights(keys state.Keys) string { return access.RequiredRights(keys, access.Node) }

// ExplainJoin adds the trouble behind the error of a process that could not join in time, with its remedy. trouble may
// be nil. needs names the rights that this process needs.
func ExplainJoin(ctx context.Context, connection connect.Config, needs string, err, trouble error) error {
	if trouble == nil {
		return err
	}
	isErr := errors.Is(err, trouble)
	if connect.LacksPermission(trouble) {
		trouble = connection.Explain(context.WithoutCancel(ctx), trouble, needs)
	}
	if isErr && errors.Is(err, trouble) {
		return err
	}
	return fmt.Errorf("%w: %w", err, trouble)
}

// warnOldServers logs a warning if a server can revoke leases that were renewed (etcd's issue 15247). Servers
// before 3.4.31 and 3.5.13 do so easily, later ones only in clusters of several members. P1 does not hold then.
func warnOldServers(ctx context.Context, p etcd.Process, client *clientv3.Client) {
	newest := ""
	for _, endpoint := range client.Endpoints() {
		attempt, cancel := context.WithTimeout(ctx, p.RequestTimeout)
		status, err := client.Status(attempt, endpoint)
		cancel()
		if err != nil {
			continue // at least one endpoint has answered before
		}
		newest = max(newest, status.Version)
		if etcdversion.RevokesRenewedLeases(status.Version) {
			p.Logger.Warn("this etcd can revoke leases that were renewed, so that two may lead for a moment: "+
				etcdversion.UpgradeRemedy,
				"endpoint", endpoint, "version", status.Version)
			return
		}
	}
	if client.Cluster == nil {
		return // a client assembled from parts, without a Cluster
	}
	attempt, cancel := context.WithTimeout(ctx, p.RequestTimeout)
	defer cancel()
	if members, err := client.MemberList(attempt); err == nil && len(members.Members) > 1 {
		p.Logger.Info("a leader of this etcd that stood still for most of a TTL can revoke leases that were renewed: "+
			"guard writes with tokens",
			"version", newest, "members", len(members.Members))
	}
}
