package clustertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/node"
)

const (
	revokedTTL    = 3
	revokedShards = 8
)

// All leases are revoked at once, as by a leader of etcd that stood still, while the leader hears
// nothing of it. Where etcd's leader has changed since they were granted, nobody leads or serves a
// shard of the old one's beside it; where it has not, it can have been a hand's doing alone, and the
// next one does: so the test sees it.
func TestAllLeasesRevokedEarly(t *testing.T) {
	for name, moved := range map[string]bool{"etcd's leader has changed": true, "it has not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd, err := embedetcd.StartCluster(patient(t), 3, embedetcd.TestTiming(embedetcd.Config{}))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, etcd.Close()) })
			old, faults := startOn(t, etcd)
			var others []*cluster.Cluster
			for range 2 {
				c, _ := startOn(t, etcd)
				others = append(others, c)
			}
			all := append([]*cluster.Cluster{old}, others...)
			eventually := func(cond func() bool, what string) {
				t.Helper()
				require.Eventually(t, cond, 20*time.Second, 5*time.Millisecond, what)
			}
			eventually(func() bool {
				st := old.Status()
				return old.IsLeader() && len(st.Queue) == 3 && serves(old) > 0 && serves(all...) == revokedShards
			}, "the first one leads, and all serve shards")
			if moved {
				moveLead(t, etcd)
			}

			faults.FreezeWatch()
			faults.StopRenewing()
			client := etcd.Member(0).Client()
			for _, c := range all {
				_, err := client.Revoke(clientv3.WithRequireLeader(patient(t)), c.Session().ID())
				require.NoError(t, err)
			}
			revoked := time.Now()
			leads, shards := beside(old, others)
			eventually(func() bool { return others[0].IsLeader() || others[1].IsLeader() }, "another one leads")
			took := time.Since(revoked)
			t.Logf("two led at %d looks, a shard was served twice at %d; another one led after %v", leads, shards,
				took.Round(time.Millisecond))
			require.Less(t, took, (revokedTTL+1)*time.Second)
			if moved {
				require.Zero(t, leads)
				require.Zero(t, shards)
			} else {
				require.Positive(t, leads)
				require.Positive(t, shards)
			}

			faults.ThawWatch()
			faults.ResumeRenewing()
			eventually(func() bool {
				for _, c := range all {
					st := c.Status()
					if !st.Ready || len(st.Queue) != 3 || st.LeaderID != st.Queue[0] || len(st.Nodes) != 3 {
						return false
					}
				}
				return serves(all...) == revokedShards
			}, "all are well again")
		})
	}
}

// startOn starts a node on all members of an etcd.
func startOn(t *testing.T, etcd *embedetcd.Cluster) (*cluster.Cluster, *Faults) {
	t.Helper()
	cfg := cluster.Config{LeaderElectionTTL: revokedTTL,
		Sharding: cluster.Sharding{Shards: revokedShards, Window: 20 * time.Millisecond}}
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // its error is that its context was cancelled
	faults := Inject(client)
	cfg.Client = client
	server, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cfg, server)
	require.NoError(t, err)
	require.NoError(t, c.Start(patient(t)))
	t.Cleanup(func() { require.NoError(t, c.Stop(patient(t))) })
	return c, faults
}

// moveLead has another member lead etcd.
func moveLead(t *testing.T, etcd *embedetcd.Cluster) {
	t.Helper()
	for i := range 3 {
		client := etcd.Member(i).Client()
		st, err := client.Status(patient(t), "")
		require.NoError(t, err)
		if st.Leader == st.Header.MemberId {
			next, err := etcd.Member((i+1)%3).Client().Status(patient(t), "")
			require.NoError(t, err)
			_, err = client.MoveLeader(patient(t), next.Header.MemberId)
			require.NoError(t, err)
			return
		}
	}
	t.Fatal("no member leads etcd")
}

// serves counts shards that are served.
func serves(all ...*cluster.Cluster) (n int) {
	for _, c := range all {
		for shard := range revokedShards {
			if _, ok := c.Shards().Serves(shard); ok {
				n++
			}
		}
	}
	return n
}

// beside looks as long as old leads, and counts the looks at which another one surely led too, and at
// which one surely served a shard that old serves.
func beside(old *cluster.Cluster, others []*cluster.Cluster) (leads, shards int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for old.IsLeader() {
		for _, c := range others {
			if c.IsLeader() && old.IsLeader() { // it did before, and goes on by the same term
				leads++
			}
			for shard := range revokedShards {
				_, first := old.Shards().Serves(shard)
				_, theirs := c.Shards().Serves(shard)
				if _, still := old.Shards().Serves(shard); first && theirs && still {
					shards++
				}
			}
		}
		<-tick.C
	}
	return leads, shards
}
