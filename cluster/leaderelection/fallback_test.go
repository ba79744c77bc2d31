package leaderelection_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

const nodeRole = "node"

// denyQueue turns on etcd's access control. Its user for the nodes may read everything and write all of the
// cluster except the queue. It returns root's client.
func denyQueue(t *testing.T, c *clustertest.Cluster) *clientv3.Client {
	t.Helper()
	ctx := etcdtest.Context(t)
	must := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	for _, user := range []string{"root", nodeRole} {
		must(c.Client().RoleAdd(ctx, user))
		must(c.Client().UserAdd(ctx, user, "secret"))
		must(c.Client().UserGrantRole(ctx, user, user))
	}
	grant := func(from, to string, perm clientv3.PermissionType) {
		t.Helper()
		must(c.Client().RoleGrantPermission(ctx, nodeRole, from, to, perm))
	}
	k := nodetest.Keys
	grant("\x00", "\x00", clientv3.PermissionType(clientv3.PermRead))
	grant(k.Prefix()+"/", k.Queue(), clientv3.PermissionType(clientv3.PermWrite))
	grant(k.QueueEnd(), k.Prefix()+"0", clientv3.PermissionType(clientv3.PermWrite))
	must(c.Client().AuthEnable(ctx))
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Etcd().Endpoint()}, Username: "root",
		Password:    "secret",
		DialTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := root.AuthDisable(etcdtest.Context(t))
		require.NoError(t, err)
		_ = root.Close()
	})
	return root
}

// inFallback reports whether every live node names this one as the leader in fallback, and only this one says
// that it leads.
func inFallback(c *clustertest.Cluster, leader *clustertest.Node) bool {
	for _, n := range c.Live() {
		st := n.Cluster().Status()
		if st.Mode != leaderelection.ModeFallback || st.LeaderID != leader.Address() || st.IsLeader != (n == leader) {
			return false
		}
	}
	return true
}

// Guards: a campaign that is denied, the order by address in entitledToAct, the guards of an acting leader's
// key, and the loss of the session for the reason permission.
func TestFallbackAndBack(t *testing.T) {
	t.Parallel()
	// On a busy machine a denial must be answered before the session's deadline, so that the denial is the
	// reason.
	const ttl = 4
	c := clustertest.New(t, 0, clustertest.WithTTL(ttl), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Username, cfg.Password = nodeRole, "secret"
	}))
	root := denyQueue(t, c)
	for range 3 {
		c.AddNode()
	}
	byName := slices.SortedFunc(slices.Values(c.Nodes()), func(a,
		b *clustertest.Node) int {
		return cmp.Compare(a.Address(), b.Address())
	})
	c.Eventually(func() bool { return inFallback(c, byName[0]) }, "all in fallback, led by %s", byName[0].Address())
	first := byName[0].Cluster().Leader().Token

	s := nodetest.StartSampler(c)
	byName[0].Stop()
	c.Eventually(func() bool { return inFallback(c, byName[1]) }, "the next smallest leads, %s", byName[1].Address())
	acting := byName[1].Cluster().Leader().Token
	require.Greater(t, acting, first, "the token grows")

	queue, end := nodetest.Keys.Queue(), nodetest.Keys.QueueEnd()
	_, err := root.RoleGrantPermission(etcdtest.Context(t), nodeRole, queue, end,
		clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	inElection := func() bool {
		for _, n := range c.Live() {
			st := n.Cluster().Status()
			if st.Mode != leaderelection.ModeElection || len(st.Queue) != 2 || st.LeaderID != st.Queue[0] {
				return false
			}
		}
		return true
	}
	c.Eventually(inElection, "the election is back")
	elected := c.WaitLeader()
	term, _ := elected.Cluster().Term()
	require.Greater(t, term.Token(), acting)

	_, err = root.RoleRevokePermission(etcdtest.Context(t), nodeRole, queue, end)
	require.NoError(t, err)
	c.Within(2*ttl*time.Second, func() bool { return inFallback(c, byName[1]) }, "in fallback again within 2 TTL")
	require.Greater(t, byName[1].Cluster().Leader().Token, term.Token())
	require.Equal(t, session.ReasonPermission, session.ReasonOf(context.Cause(term.Context())))
	s.Stop(t)
}

// Guards: Config.Fallback. With FallbackNone no node leads, and none reports fallback, until the election
// works.
func TestFallbackNone(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Username, cfg.Password = nodeRole, "secret"
		cfg.Fallback = cluster.FallbackNone
	}))
	root := denyQueue(t, c)
	c.AddNode()
	c.AddNode()
	// Each has recorded that its election failed, so by the rule of fallback the smaller one would act now.
	c.Eventually(func() bool {
		for _, n := range c.Nodes() {
			for _, m := range inspect.Snapshot(n.Cluster()).Members {
				if !m.ElectionFailed {
					return false
				}
			}
		}
		return true
	}, "all know that all their elections failed")
	s := nodetest.StartSampler(c)
	// One round trip later.
	_, err := root.Put(etcdtest.Context(t), nodetest.Keys.Prefix()+"/nodes/mark", "{}")
	require.NoError(t, err)
	for _, n := range c.Nodes() {
		c.Eventually(func() bool { return inspect.Snapshot(n.Cluster()).Member("mark") != nil }, "the mark is seen")
		st := n.Cluster().Status()
		require.Empty(t, st.LeaderID)
		require.Equal(t, leaderelection.ModeElection, st.Mode)
		require.NotEmpty(t, st.ElectionFailed)
		require.Nil(t, inspect.Snapshot(n.Cluster()).Acting)
	}
	_, err = root.Delete(etcdtest.Context(t), nodetest.Keys.Prefix()+"/nodes/mark")
	require.NoError(t, err)
	_, err = root.RoleGrantPermission(etcdtest.Context(t), nodeRole, nodetest.Keys.Queue(), nodetest.Keys.QueueEnd(),
		clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	require.Equal(t, leaderelection.ModeElection, c.WaitLeader().Cluster().Leader().Mode)
	s.Stop(t)
}

// The removal of a dead member must not touch the queue, which etcd denies here.
func TestKilledActingLeaderIsReplacedLongBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0, clustertest.WithTTL(nodetest.LongTTL), clustertest.WithConfig(func(_ int,
		cfg *cluster.Config) {
		cfg.Username, cfg.Password = nodeRole, "secret"
		cfg.CrashDetection.GracePeriod, cfg.CrashDetection.SilenceTimeout = 300*time.Millisecond, -1
	}))
	denyQueue(t, c)
	for range 3 {
		c.AddNode()
	}
	nodetest.AwaitWatched(t, c, 3, 2)
	byName := slices.SortedFunc(slices.Values(c.Nodes()), func(a,
		b *clustertest.Node) int {
		return cmp.Compare(a.Address(), b.Address())
	})
	c.Eventually(func() bool { return inFallback(c, byName[0]) }, "all in fallback, led by %s", byName[0].Address())
	byName[0].Kill()
	c.Eventually(func() bool { return inFallback(c, byName[1]) }, "the next smallest leads, %s", byName[1].Address())
}
