package lingering_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node"
)

const (
	revokedTTL    = 3
	revokedShards = 8
)

// All leases are revoked at once, as by a leader of etcd that stood still, while the leading node does not
// learn of it. If etcd's leader has changed since they were granted, no other node leads, serves one of the old
// leader's shards, holds its lock, or leads its named election beside it. If it has not changed, only an
// out-of-band change can have revoked them, and the next node takes over, which shows that the test detects an
// overlap.
func TestAllLeasesRevokedEarly(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string]bool{"etcd's leader has changed": true, "it has not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// If one lease outlives another by the grace period, the other one is taken for one that ended by itself.
			const quickly, attempts = 100 * time.Millisecond, 10
			for attempt := range attempts {
				var took time.Duration
				if !t.Run(strconv.Itoa(attempt), func(t *testing.T) { took = revokeEarly(t, moved, quickly) }) || took <= quickly {
					return
				}
				t.Logf("etcd took %v to revoke the leases", took)
			}
			t.Fatalf("etcd never revoked the leases within %v", quickly)
		})
	}
}

// revokeEarly revokes the leases of all nodes of a new cluster. It returns how long etcd took, and judges what follows
// unless that was longer than quickly.
func revokeEarly(t *testing.T, moved bool, quickly time.Duration) time.Duration {
	etcd, err := embedetcd.StartCluster(etcdtest.Context(t), 3, embedetcd.TestTiming(embedetcd.Config{}))
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
		require.Eventually(t, cond, time.Minute, 5*time.Millisecond, what)
	}
	eventually(func() bool {
		st := old.Status()
		return old.IsLeader() && len(st.Queue) == 3 && serves(old) > 0 && serves(all...) == revokedShards
	}, "the first one leads, and all serve shards")
	claims := claimsOf(t, old, others)
	if moved {
		moveLead(t, etcd)
	}

	faults.FreezeWatch()
	faults.StopRenewing()
	took := revokeAtOnce(t, etcd.Member(0).Client(), all)
	revoked := time.Now()
	twice := beside(old, claims)
	eventually(func() bool { return others[0].IsLeader() || others[1].IsLeader() }, "another one leads")
	led := time.Since(revoked)
	t.Logf("looks at which two claimed the same: %v; another one led after %v", twice, led.Round(time.Millisecond))
	if took <= quickly {
		require.Less(t, led, (revokedTTL+1)*time.Second)
		for _, what := range []string{leading, serving, locking, naming} {
			if moved {
				require.Zero(t, twice[what], what)
			} else {
				require.Positive(t, twice[what], what)
			}
		}
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
	return took
}

// revokeAtOnce revokes the leases of all, and returns how long that took.
func revokeAtOnce(t *testing.T, client *clientv3.Client, all []*cluster.Cluster) time.Duration {
	t.Helper()
	ctx := clientv3.WithRequireLeader(etcdtest.Context(t))
	began := time.Now()
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			_, err := client.Revoke(ctx, c.Session().ID())
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	return time.Since(began)
}

// No node waits for one that has stopped, even if its lease is older than etcd's raft term.
func TestStoppedNodeDoesNotLinger(t *testing.T) {
	t.Parallel()
	etcd, err := embedetcd.StartCluster(etcdtest.Context(t), 3, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, etcd.Close()) })
	a, _ := startOn(t, etcd)
	b, _ := startOn(t, etcd)
	moveLead(t, etcd)
	held, err := b.Locks().Acquire(etcdtest.Context(t), "l")
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		<-held.Context().Done()
		assert.NoError(t, held.Release(etcdtest.Context(t)))
	})
	wg.Go(func() { assert.NoError(t, b.Stop(etcdtest.Context(t))) })
	for s := inspect.Snapshot(a); s.Member(b.Node().AdvertiseAddress()) != nil; s = inspect.Snapshot(a) {
		require.Empty(t, s.Lingering)
	}
	l, err := a.Locks().Acquire(etcdtest.Context(t), "l")
	require.NoError(t, err)
	require.NoError(t, l.Release(etcdtest.Context(t)))
}

// startOn starts a node on all members of an etcd.
func startOn(t *testing.T, etcd *embedetcd.Cluster) (*cluster.Cluster, *etcdfault.Faults) {
	t.Helper()
	cfg := cluster.Config{LeaderElectionTTL: revokedTTL,
		Sharding: cluster.Sharding{Shards: revokedShards, Window: 20 * time.Millisecond}}
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // its error only reports that its context was canceled
	faults := etcdfault.Inject(client)
	cfg.Client = client
	server, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := cluster.NewClusterWithNode(cfg, server)
	require.NoError(t, err)
	require.NoError(t, c.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, c.Stop(etcdtest.Context(t))) })
	return c, faults
}

// moveLead makes another member lead etcd.
func moveLead(t *testing.T, etcd *embedetcd.Cluster) {
	t.Helper()
	for i := range 3 {
		client := etcd.Member(i).Client()
		st, err := client.Status(etcdtest.Context(t), "")
		require.NoError(t, err)
		if st.Leader == st.Header.MemberId {
			next, err := etcd.Member((i+1)%3).Client().Status(etcdtest.Context(t), "")
			require.NoError(t, err)
			_, err = client.MoveLeader(etcdtest.Context(t), next.Header.MemberId)
			require.NoError(t, err)
			return
		}
	}
	t.Fatal("no member leads etcd")
}

// serves counts the shards that are served.
func serves(all ...*cluster.Cluster) (n int) {
	for shard := range revokedShards {
		n += serve(shard, all...)
	}
	return n
}

// serve counts the nodes that serve a shard.
func serve(shard int, all ...*cluster.Cluster) (n int) {
	for _, c := range all {
		if _, ok := c.Shards().Serves(shard); ok {
			n++
		}
	}
	return n
}

// claim is a right that one node has at a time, with functions that report its present holders.
type claim struct {
	what        string
	old, others func() bool
}

const leading, serving, locking, naming = "leading", "serving a shard", "holding a lock", "leading a named election"

// claimsOf makes old hold a lock and lead a named election, which the others keep competing for.
func claimsOf(t *testing.T, old *cluster.Cluster, others []*cluster.Cluster) []claim {
	t.Helper()
	claims := []claim{{leading, old.IsLeader, func() bool { return others[0].IsLeader() || others[1].IsLeader() }}}
	for shard := range revokedShards {
		claims = append(claims, claim{serving, func() bool { return serve(shard, old) > 0 },
			func() bool { return serve(shard, others...) > 0 }})
	}
	held, err := old.Locks().Acquire(etcdtest.Context(t), "l")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	next := make([]atomic.Pointer[lock.Held], len(others))
	t.Cleanup(func() {
		cancel()
		for i := range next {
			if l := next[i].Load(); l != nil {
				_ = (*l).Release(etcdtest.Context(t)) // it may have been lost with its session
			}
		}
		wg.Wait()
	})
	for i, c := range others {
		wg.Go(func() {
			for ctx.Err() == nil {
				if l, taken, err := c.Locks().TryAcquire(ctx, "l"); err == nil && taken {
					next[i].Store(&l)
					<-l.Context().Done()
				}
			}
		})
	}
	named := make([]*cluster.Candidate, len(others))
	first, err := old.Elections().Stand("e")
	require.NoError(t, err)
	require.Eventually(t, first.IsLeader, time.Minute, 5*time.Millisecond)
	for i, c := range others {
		named[i], err = c.Elections().Stand("e")
		require.NoError(t, err)
	}
	// By then the first node has finished its reads and learns of the election only by its watch, which is
	// frozen later.
	require.Eventually(t, func() bool { return len(first.Queue()) == 1+len(others) }, time.Minute, time.Millisecond)
	return append(claims, claim{locking, held.Valid, func() bool {
		return slices.ContainsFunc([]int{0, 1}, func(i int) bool { l := next[i].Load(); return l != nil && (*l).Valid() })
	}}, claim{naming, first.IsLeader, func() bool { return named[0].IsLeader() || named[1].IsLeader() }})
}

// beside checks repeatedly while old leads, and counts the checks in which another node claimed something that
// old claimed throughout.
func beside(old *cluster.Cluster, claims []claim) map[string]int {
	twice := map[string]int{}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for old.IsLeader() {
		for _, c := range claims {
			if c.old() && c.others() && c.old() { // old claimed it before, and still does in the same term
				twice[c.what]++
			}
		}
		<-tick.C
	}
	return twice
}
