//go:build unix

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

// All members of etcd are replaced one by one by members at other addresses, while a node and an exec know only
// the first addresses. No session is lost, and the log names the addresses that do not answer and their
// replacements.
func TestMembersOfEtcdMove(t *testing.T) {
	t.Parallel()
	moveMembers(t, kit.StartMembers(t, procs.Etcd37, 3, 0), "")
}

// The log-ins of a user follow the members too. Each replacement ends streams, and etcd's client logs in before it
// opens another.
func TestMembersOfEtcdMoveWithPassword(t *testing.T) {
	t.Parallel()
	etcd := kit.StartMembers(t, procs.Etcd37, 3, 0)
	allowElection(t, enableAccess(t, &procs.Etcd{Endpoint: etcd.Endpoints[0]}))
	etcd.LogIn(t, administrator)
	moveMembers(t, etcd, nodeUser)
}

func moveMembers(t *testing.T, etcd *procs.Members, user string) {
	given := slices.Clone(etcd.Endpoints)
	n := kit.StartNode(t, procs.NodeConfig{Etcd: strings.Join(given, ","), TTL: passwordTTL, User: user, Password: user})
	n.AwaitStatus(t, patience, "leads", leads)
	began := filepath.Join(t.TempDir(), "began")
	exec := kit.Goversed(t, "exec", "--election", "move", "--etcd", strings.Join(given, ","), "--prefix", procs.Prefix,
		"--ttl", passwordTTL.String(), "--etcd-user", user, "--etcd-password", user, "--", "sh", "-c",
		`echo begun >> "$0"; sleep 600`, began)
	begun := func() int { text, _ := os.ReadFile(began); return strings.Count(string(text), "begun") }
	procs.Await(t, patience, "the command runs", func() error {
		if begun() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	for i := range given {
		etcd.Replace(t, kit, i)
		n.AwaitOutput(t, patience, "an address of etcd does not answer, others do: start that member again, or name "+
			"another one in --etcd: endpoint="+given[i])
	}
	renewed := renewals(t, n)
	procs.Await(t, patience, "the node renews its session", func() error {
		if now := renewals(t, n); now < renewed+2 {
			return fmt.Errorf("%v renewals after %v", now, renewed)
		}
		return nil
	})
	lost, err := n.Metric(requestContext(t), "goverse_sessions_lost_total")
	require.NoError(t, err)
	require.Zero(t, lost, n.Output())
	require.Equal(t, 1, begun(), "the command was not started anew")
	for _, p := range []*procs.Process{n.Process, exec} {
		p.AwaitOutput(t, patience, "following etcd's members to addresses that were not given")
	}
	exec.Signal(t, syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), exec.Exit(t, patience))
	n.Signal(t, syscall.SIGTERM)
	require.Equal(t, 0, n.Exit(t, patience), "it leaves in order")
}
