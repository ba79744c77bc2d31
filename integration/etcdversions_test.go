//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/node"
)

// versionsTTL is longer than etcd needs to elect another leader of its own.
const versionsTTL = 4 * time.Second

// The core promises hold over three members of each version of etcd: a leader is elected and, when it is killed,
// replaced; shards move; a lock excludes; an effect runs once; a minority of etcd serves no leader. With another
// version, which compat/ builds:
//
//	go build -C compat/etcd36 -o ../../bin/etcd36 .
//	go test ./integration -run 'TestEtcdVersions|TestDataOfAnOlderEtcd' -etcd.binary $PWD/bin/etcd36
func TestEtcdVersions(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		t.Parallel()
		if flavour == procs.EtcdBinary {
			t.Logf("etcd %s", procs.EtcdBinaryVersion(t))
		}
		members := kit.StartMembers(t, flavour, 3, 0)
		etcd := strings.Join(members.Endpoints, ",")
		cfg := procs.NodeConfig{Etcd: etcd, TTL: versionsTTL}
		nodes, watch := startNodes(t, cfg, 3)
		token := awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes)).Token

		killed := nodes[0].Kill(t)
		nodes = nodes[1:]
		st, _ := nodes[0].AwaitStatus(t, patience, "leads", leads)
		t.Logf("%v after SIGKILL the next one leads", time.Since(killed))
		token = grown(t, token, st)

		awaitShardsSpread(t, nodes)
		added := kit.StartNode(t, cfg)
		watch.Add(added)
		nodes = append(nodes, added)
		awaitShardsSpread(t, nodes)

		a, b := startLibraryNode(t, etcd), startLibraryNode(t, etcd)
		requireLockExcludes(t, a, b)
		requireEffectRunsOnce(t, a, b)

		// Two members of three stand still: the sessions end at their deadlines, and nothing leads.
		meter := pace.StartMeter(t)
		frozen := members.Processes[0].Freeze(t)
		members.Processes[1].Freeze(t)
		for _, n := range nodes {
			n.AwaitStatus(t, 2*versionsTTL, "does not lead", func(st procs.Status) error {
				return equal("is_leader", st.IsLeader, false)
			})
		}
		took := time.Since(frozen)
		t.Logf("%v after etcd lost its majority no node leads", took)
		require.LessOrEqual(t, took, versionsTTL+meter.Scale(time.Second))
		members.Processes[0].Thaw(t)
		members.Processes[1].Thaw(t)
		grown(t, token, awaitElected(t, nodes))
	})
}

// awaitShardsSpread waits until the nodes serve all shards, each node its share.
func awaitShardsSpread(t *testing.T, nodes []*procs.Node) {
	t.Helper()
	procs.Await(t, 2*patience, "the nodes share the shards", func() error { return checkShardsSpread(t, nodes) })
}

// startLibraryNode starts a node in the test's own process, in a cluster without the other nodes.
func startLibraryNode(t *testing.T, etcd string) *cluster.Cluster {
	t.Helper()
	n, err := node.NewNode(node.Config{AdvertiseAddress: kit.Addresses(t, 1)[0]})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: etcd, EtcdPrefix: "/library",
		LeaderElectionTTL: int(versionsTTL / time.Second), Sharding: cluster.Sharding{Off: true}}, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(requestContext(t)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, c.Stop(ctx))
	})
	return c
}

// requireLockExcludes requires that one node waits for a lock while another holds it, and gets a greater token.
func requireLockExcludes(t *testing.T, a, b *cluster.Cluster) {
	t.Helper()
	held, err := a.Locks().Acquire(requestContext(t), "it")
	require.NoError(t, err)
	require.True(t, held.Valid())
	_, free, err := b.Locks().TryAcquire(requestContext(t), "it")
	require.NoError(t, err)
	require.False(t, free)
	require.NoError(t, held.Release(requestContext(t)))
	next, err := b.Locks().Acquire(requestContext(t), "it")
	require.NoError(t, err)
	require.Greater(t, next.Token(), held.Token())
	require.NoError(t, next.Release(requestContext(t)))
}

// requireEffectRunsOnce requires that an effect runs on one node alone, and that the other one gets its result.
func requireEffectRunsOnce(t *testing.T, a, b *cluster.Cluster) {
	t.Helper()
	ran := 0
	for _, c := range []*cluster.Cluster{a, b, a} {
		result, err := c.Once(requestContext(t), "effect", func(context.Context, int64) ([]byte, error) {
			ran++
			return fmt.Append(nil, "run ", ran), nil
		})
		require.NoError(t, err)
		require.Equal(t, "run 1", string(result.Value))
	}
}

// The data that etcd 3.6 has written is opened by the embedded etcd 3.7: nodes continue, tokens grow, and the result of
// an effect is remembered.
func TestDataOfAnOlderEtcd(t *testing.T) {
	t.Parallel()
	version := procs.EtcdBinaryVersion(t)
	if !strings.HasPrefix(version, "3.6.") {
		t.Skipf("etcd 3.7 opens the data of 3.6, not of %s: etcd is upgraded by one minor version at a time", version)
	}
	etcd := kit.StartEtcd(t, procs.EtcdBinary)
	nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: versionsTTL}, 2)
	token := awaitAgreement(t, patience, nodes, nodes[0].Address, election, addresses(nodes)).Token
	c := startLibraryNode(t, etcd.Endpoint)
	effect := func(value string) (string, error) {
		result, err := c.Once(requestContext(t), "effect",
			func(context.Context, int64) ([]byte, error) { return []byte(value), nil })
		return string(result.Value), err
	}
	value, err := effect("of 3.6")
	require.NoError(t, err)
	require.Equal(t, "of 3.6", value)

	etcd.Signal(t, syscall.SIGTERM)
	etcd.Exit(t, patience)
	etcd.Upgrade(t, procs.Etcd37)
	st := awaitElected(t, nodes)
	require.GreaterOrEqual(t, st.Token, token)
	procs.Await(t, patience, "the effect is remembered", func() error {
		value, err := effect("of 3.7")
		return errors.Join(err, equal("the result", value, "of 3.6"))
	})
	leader := slices.IndexFunc(nodes, func(n *procs.Node) bool { return n.Address == st.LeaderID })
	signalled := nodes[leader].Signal(t, syscall.SIGTERM)
	next, _ := nodes[1-leader].AwaitStatus(t, patience, "leads", leads)
	t.Logf("%v after SIGTERM the next one leads", time.Since(signalled))
	grown(t, st.Token, next)
	require.NoError(t, c.Stop(requestContext(t))) // before the test ends etcd
}
