//go:build unix

package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/electortest"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/redisserver"
)

// startMember starts a server in cluster mode, and again if another program has taken the port of its bus.
func startMember(t *testing.T) *redisserver.Server {
	t.Helper()
	for range 5 {
		bus, err := port.Servers.Draw("127.0.0.1")
		require.NoError(t, err)
		_, number, err := net.SplitHostPort(bus)
		require.NoError(t, err)
		member, err := redisserver.Start("--cluster-enabled", "yes", "--cluster-port", number,
			"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
		if errors.Is(err, redisserver.ErrNotInstalled) {
			needed.Missing(t, "redis", err.Error())
		}
		if err == nil {
			t.Cleanup(func() { require.NoError(t, member.Close()) })
			return member
		}
		t.Log(err)
	}
	require.Fail(t, "no member of a cluster starts")
	return nil
}

// startCluster starts a cluster of a master and a replica, and returns clients of both.
func startCluster(ctx context.Context, t *testing.T) (address string, master, replica *goredis.Client) {
	t.Helper()
	first, second := startMember(t), startMember(t)
	master, replica = placeAt(first.Address()).client(t), placeAt(second.Address()).client(t)
	require.NoError(t, master.ClusterAddSlotsRange(ctx, 0, 16383).Err())
	host, number, err := net.SplitHostPort(first.Address())
	require.NoError(t, err)
	bus, err := master.ConfigGet(ctx, "cluster-port").Result()
	require.NoError(t, err)
	require.NoError(t, replica.Do(ctx, "CLUSTER", "MEET", host, number, bus["cluster-port"]).Err())
	id := master.Do(ctx, "CLUSTER", "MYID").Val()
	require.Eventually(t, func() bool { return replica.Do(ctx, "CLUSTER", "REPLICATE", id).Err() == nil }, time.Minute,
		10*time.Millisecond, "it knows the master")
	require.Eventually(t, func() bool {
		for _, member := range []*goredis.Client{master, replica} {
			shards := member.ClusterShards(ctx).Val()
			if len(shards) != 1 || len(shards[0].Nodes) != 2 || shards[0].Nodes[0].Health != "online" ||
				shards[0].Nodes[1].Health != "online" ||
				!strings.Contains(member.ClusterInfo(ctx).Val(), "cluster_state:ok") {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond, "both know both")
	return first.Address(), master, replica
}

// The store reads from the master of a cluster, also with a client that reads from replicas.
func TestCluster(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	address, _, replica := startCluster(ctx, t)
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{address}, ReadOnly: true,
		ContextTimeoutEnabled: true})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	asked := func(command string) bool {
		return strings.Contains(replica.Info(ctx, "commandstats").Val(), "cmdstat_"+command+":")
	}
	require.ErrorIs(t, client.Get(ctx, newKey()).Err(), goredis.Nil)
	require.True(t, asked("get"), "that client reads from replicas")
	require.NoError(t, replica.ConfigResetStat(ctx).Err())
	electortest.Run(t, func(t *testing.T) elector.LeaseStore { return newStore(t, client, newKey()) })
	require.False(t, asked("get"))
	require.False(t, asked("getex"))
	require.False(t, asked("evalsha"))
}
