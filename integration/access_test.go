//go:build unix

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/procs"
)

// The users of an etcd with access control. Each user's password is its name.
const (
	administrator = "root"
	nodeUser      = "node"
	nodeRole      = "member"
)

// passwordTTL leaves time for password checks, which etcd makes expensive.
const passwordTTL = 10 * time.Second

// queueEnd ends the range of the candidates' keys; allKeysEnd ends the range of all keys.
const (
	queueEnd   = procs.Prefix + "/leader0"
	allKeysEnd = "\x00"
)

// enableAccess turns etcd's access control on. The nodes' user may read everything and write everything except the
// candidates' keys. enableAccess returns the administrator's client.
func enableAccess(t *testing.T, etcd *procs.Etcd) *clientv3.Client {
	t.Helper()
	open := etcd.Client(t, "", "")
	for _, user := range []string{administrator, nodeUser} {
		_, err := open.UserAdd(requestContext(t), user, user)
		require.NoError(t, err)
	}
	for user, role := range map[string]string{administrator: "root", nodeUser: nodeRole} {
		_, err := open.RoleAdd(requestContext(t), role)
		require.NoError(t, err)
		_, err = open.UserGrantRole(requestContext(t), user, role)
		require.NoError(t, err)
	}
	for _, right := range []struct {
		from, to string
		kind     authpb.Permission_Type
	}{
		{allKeysEnd, allKeysEnd, clientv3.PermRead},
		{allKeysEnd, queue, clientv3.PermWrite},
		{queueEnd, allKeysEnd, clientv3.PermWrite},
	} {
		_, err := open.RoleGrantPermission(requestContext(t), nodeRole, right.from, right.to,
			clientv3.PermissionType(right.kind))
		require.NoError(t, err)
	}
	_, err := open.AuthEnable(requestContext(t))
	require.NoError(t, err)
	return etcd.Client(t, administrator, administrator)
}

// allowElection grants the nodes' user the missing right.
func allowElection(t *testing.T, admin *clientv3.Client) {
	t.Helper()
	_, err := admin.RoleGrantPermission(requestContext(t), nodeRole, queue, queueEnd,
		clientv3.PermissionType(clientv3.PermWrite))
	require.NoError(t, err)
}

// denyElection revokes that right again.
func denyElection(t *testing.T, admin *clientv3.Client) {
	t.Helper()
	_, err := admin.RoleRevokePermission(requestContext(t), nodeRole, queue, queueEnd)
	require.NoError(t, err)
}
