package leaderelection_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pace"
)

// The rights that goversed rbac prints for a process of an election only suffice for all that it does. Without one of
// those that it always needs, Start fails and names them.
func TestLeastRightsOfAnElectionAlone(t *testing.T) {
	pace.Parallel(t)
	ctx := etcdtest.Context(t)
	server := etcdtest.Start(t)
	etcdtest.EnableAuth(t, server.Client(), "secret", "u")
	as := func(user string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: user, Password: "secret",
			Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	root, client := as("root"), as("u")
	keys, err := state.NewKeys("/alone")
	require.NoError(t, err)
	grant := func(r access.Range, right access.Right) {
		kind := clientv3.PermissionType(clientv3.PermRead)
		if right == access.ReadWrite {
			kind = clientv3.PermissionType(clientv3.PermReadWrite)
		}
		_, err := root.RoleGrantPermission(ctx, "u", r.Start, r.End, kind)
		require.NoError(t, err)
	}
	all := access.Ranges(keys, access.Election)
	for _, r := range all {
		grant(r, r.Right)
	}
	a := takePart(t, client, "a")
	a.awaitLeads(t)
	b := takePart(t, client, "b")
	require.NoError(t, b.Transfer(ctx, "b"))
	b.awaitLeads(t)
	require.NoError(t, b.Stop(ctx))
	a.awaitLeads(t)
	require.NoError(t, a.Stop(ctx))

	for _, r := range all {
		if !r.Always {
			continue
		}
		_, err := root.RoleRevokePermission(ctx, "u", r.Start, r.End)
		require.NoError(t, err)
		if r.Right == access.ReadWrite {
			grant(r, access.Read)
		}
		_, runner, err := leaderelection.New(leaderelection.Config{Client: client, EtcdPrefix: "/alone",
			RequestTimeout: time.Second})
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = runner.Start(soon)
		cancel()
		require.ErrorIs(t, err, leaderelection.ErrEtcdDenied, r)
		require.ErrorContains(t, err, access.RequiredRights(keys, access.Election), r)
		require.NoError(t, runner.Stop(ctx))
		grant(r, r.Right)
	}
}
