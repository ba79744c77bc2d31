package consensusmanager_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/pace"
)

var straggles = flag.Duration("shards.straggler", 0,
	"for how long, at the least, a call in one shard goes on while the others are handed over; 30s is past the drain "+
		"time-out")

func TestShardsFollowTheMembers(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, nodetest.WithSharding(cluster.Sharding{Window: 50 * time.Millisecond}))
	began := time.Now()
	c.Eventually(nodetest.IsBalanced(c, 3), "8192 shards are spread over three")
	t.Logf("spread over three %v after the start", time.Since(began))
	began = time.Now()
	c.Node(0).Stop()
	t.Logf("stopped in %v", time.Since(began))
	began = time.Now()
	c.Eventually(nodetest.IsBalanced(c, 2), "two have all")
	t.Logf("all served %v after that", time.Since(began))
	began = time.Now()
	c.Node(1).Kill()
	c.Eventually(nodetest.IsBalanced(c, 1), "the last one has all")
	t.Logf("all served %v after a kill", time.Since(began))
}

// watchOwners asks all nodes about all shards again and again. It records how long each shard had no owner, and
// whether it ever had two.
type watchOwners struct {
	stop   context.CancelFunc
	done   chan struct{}
	rounds int
	pauses map[int]time.Duration // the longest of each shard
	twice  []string
}

func watchServing(nodes ...*clustertest.Node) *watchOwners {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watchOwners{stop: cancel, done: make(chan struct{}), pauses: map[int]time.Duration{}}
	count := nodes[0].Cluster().Shards().Count()
	go func() {
		defer close(w.done)
		lastServed := make([]time.Time, count)
		for ctx.Err() == nil {
			w.rounds++
			for shard := range count {
				by := []string{}
				for _, n := range nodes {
					if h := n.Cluster().Shards(); h != nil {
						if _, ok := h.Serves(shard); ok {
							by = append(by, n.Address())
						}
					}
				}
				now := time.Now()
				switch {
				case len(by) > 1:
					// The nodes are asked one after the other: the first may have released the shard meanwhile.
					again := 0
					for _, n := range nodes {
						if _, ok := n.Cluster().Shards().Serves(shard); ok {
							again++
						}
					}
					if again > 1 {
						w.twice = append(w.twice, fmt.Sprintf("shard %d: %v", shard, by))
					}
					lastServed[shard] = now
				case len(by) == 1:
					if last := lastServed[shard]; !last.IsZero() {
						w.pauses[shard] = max(w.pauses[shard], now.Sub(last))
					}
					lastServed[shard] = now
				}
			}
		}
	}()
	return w
}

// end stops watching, and returns the longest time that a shard had no owner.
func (w *watchOwners) end() time.Duration {
	w.stop()
	<-w.done
	var longest time.Duration
	for _, p := range w.pauses {
		longest = max(longest, p)
	}
	return longest
}

// A shard with a long call is handed over when the call has ended, and all others at once.
func TestStragglerHoldsUpNoOtherShard(t *testing.T) {
	t.Parallel()
	const shards = 64
	c := clustertest.New(t, 1, nodetest.WithSharding(cluster.Sharding{Shards: shards, Window: 20 * time.Millisecond}))
	old := c.Node(0).Cluster().Shards()
	c.Eventually(nodetest.IsBalanced(c, 1), "the first node has all")
	keys := map[int]string{}
	for i := 0; len(keys) < shards; i++ {
		keys[old.Shard(fmt.Sprint(i))] = fmt.Sprint(i)
	}
	// Each shard has a call that runs until its channel in ends is closed.
	inside := make(chan struct{})
	ends := [shards]chan struct{}{}
	var wg sync.WaitGroup
	defer wg.Wait()
	for shard, key := range keys {
		ends[shard] = make(chan struct{})
		wg.Go(func() {
			assert.NoError(t, old.Serve(context.Background(), key, func(ctx context.Context, _ int64) error {
				inside <- struct{}{}
				<-ends[shard]
				assert.True(t, ctx.Err() == nil || *straggles > 10*time.Second, "ended before the drain time-out")
				return nil
			}))
		})
		<-inside
	}
	nextUp := c.AddNode().Cluster()
	next := nextUp.Shards()
	c.Eventually(func() bool { return nextUp.Status().Shards.Waiting == shards/2 },
		"half of them are to move, and none has")
	straggler := -1
	for shard := range shards {
		if owner, _ := next.OwnerOf(shard); owner.Address == c.Node(1).Address() && straggler < 0 {
			straggler = shard
			continue
		}
		close(ends[shard])
	}
	c.Eventually(func() bool { return next.Held() == shards/2-1 && nextUp.Status().Shards.Waiting == 1 },
		"all but one are handed over")
	// The call runs on, a third node comes and goes, and the shards that move then are not held up either.
	w := watchServing(c.Node(0), c.Node(1))
	held := time.After(*straggles)
	third := c.AddNode()
	c.Eventually(func() bool { return third.Cluster().Shards().Held() >= shards/3 }, "the third has its share")
	third.Stop()
	c.Eventually(func() bool {
		once, none, twice := nodetest.CountServed(c)
		return once == shards-1 && none == 1 && twice == 0
	}, "the others have it back")
	<-held
	w.end()
	require.Empty(t, w.twice)
	once, none, _ := nodetest.CountServed(c)
	require.Equal(t, []int{shards - 1, 1}, []int{once, none}, "of all but that one nobody notices")
	_, ok := next.Serves(straggler)
	require.False(t, ok, "the call is not over")
	err := old.Serve(t.Context(), keys[straggler], func(context.Context, int64) error { return nil })
	require.ErrorIs(t, err, shard.ErrNotOwner, "and no other comes in")
	not, ok := errors.AsType[*shard.NotOwnerError](err)
	require.True(t, ok)
	require.Equal(t, c.Node(1).Address(), not.Owner)
	close(ends[straggler])
	c.Eventually(nodetest.IsBalanced(c, 2), "the last one follows")
}

func TestTwoThreeTwo(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, nodetest.WithSharding(cluster.Sharding{Window: 100 * time.Millisecond}))
	c.Eventually(nodetest.IsBalanced(c, 2), "two share")
	third := c.NewNode()
	before := inspect.Snapshot(c.Node(0).Cluster()).ShardMap.Map
	w := watchServing(c.Node(0), c.Node(1), third)
	require.NoError(t, third.Start(t.Context()))
	c.Eventually(nodetest.IsBalanced(c, 3), "three share")
	after := inspect.Snapshot(c.Node(0).Cluster()).ShardMap.Map
	require.Contains(t, []int{2730, 2731}, moved(before, after))
	third.Stop()
	c.Eventually(nodetest.IsBalanced(c, 2), "two share again")
	longest := w.end()
	require.Empty(t, w.twice)
	require.Contains(t, []int{2730, 2731}, moved(after, inspect.Snapshot(c.Node(0).Cluster()).ShardMap.Map))
	t.Logf("no shard was without an owner for longer than %v, looked at %d times", longest, w.rounds)
}

func moved(before, after *sharding.Map) int {
	n := 0
	for shard := range before.Shards() {
		a, _ := before.Owner(shard)
		if b, _ := after.Owner(shard); a != b {
			n++
		}
	}
	return n
}

// Guards: the planner's fence. A map in flight when its author stops leading is not written, however late it
// arrives.
func TestMapOfAnExLeaderIsRefused(t *testing.T) {
	t.Parallel()
	// The leader has lost a watcher, and must not end its term because etcd is slow to confirm its session.
	c := clustertest.New(t, 4, nodetest.WithSharding(cluster.Sharding{Shards: 64, Window: 50 * time.Millisecond}),
		nodetest.WithCrashDetection(cluster.CrashDetection{GracePeriod: 2 * time.Second}))
	c.Eventually(nodetest.IsBalanced(c, 4), "four share")
	leader, next := c.Node(0), c.Node(1)
	c.WaitLeaderIs(leader.Address())
	mapRevision := func() int64 {
		resp, err := c.Client().Get(t.Context(), nodetest.Keys.ShardMap())
		require.NoError(t, err)
		return resp.Kvs[0].ModRevision
	}
	before := mapRevision()
	old := holdMaps(leader)
	c.Node(3).Kill()
	nodetest.AwaitCaught(t, old)
	new := holdMaps(next) // it would plan over the same map
	require.NoError(t, leader.Cluster().Resign(t.Context()))
	c.WaitLeaderIs(next.Address())
	nodetest.AwaitCaught(t, new)
	require.NoError(t, old.Release(t.Context()))
	require.Equal(t, before, mapRevision(), "etcd has refused it")
	require.NoError(t, new.Release(t.Context()))
	require.Greater(t, mapRevision(), before)
	next.Faults().Heal()
	c.Eventually(nodetest.IsBalanced(c, 3), "three share")
}

// holdMaps catches the maps that a node writes, and their copies, which follow while there is no answer. It returns the
// first one.
func holdMaps(n *clustertest.Node) (first *clustertest.Held) {
	for range 1000 {
		held := n.Faults().HoldNext(clustertest.OpTxn, clustertest.Putting(nodetest.Keys.ShardMap()))
		if first == nil {
			first = held
		}
	}
	return first
}

func TestAllStopAtOnce(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, nodetest.WithSharding(cluster.Sharding{}))
	c.Eventually(func() bool { _, none, _ := nodetest.CountServed(c); return none == 0 }, "all are served")
	meter := pace.StartMeter(t)
	began := time.Now()
	var wg sync.WaitGroup
	for _, n := range c.Nodes() {
		wg.Go(n.Stop)
	}
	wg.Wait()
	require.Less(t, time.Since(began), meter.Scale(2*time.Second))
	t.Logf("all stopped in %v", time.Since(began))
}

func TestAnotherNumberOfShardsIsRefused(t *testing.T) {
	t.Parallel()
	counts := []int{64, 32}
	c := clustertest.New(t, 1, clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.Sharding.Shards = counts[min(i, 1)]
	}))
	c.Eventually(nodetest.IsBalanced(c, 1), "the first node has all")
	err := c.NewNode().Start(t.Context())
	require.ErrorIs(t, err, cluster.ErrShardCount)
	require.ErrorContains(t, err, "it has 64, this node 32")
}

// A session that is suspended for a moment serves nothing meanwhile, and everything after.
func TestSuspendedNodeServesNothing(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1, clustertest.WithTTL(nodetest.LongTTL), nodetest.WithSharding(cluster.Sharding{Shards: 64}))
	c.Eventually(nodetest.IsBalanced(c, 1), "it has all")
	n := c.Node(0)
	owner, _ := n.Cluster().Shards().OwnerOf(0)
	epoch := owner.Epoch
	n.Faults().CutOff()
	inspect.Session(n.Cluster()).Suspect(0, 50*time.Millisecond)
	c.Eventually(func() bool {
		_, ok := n.Cluster().Shards().Serves(0)
		return !ok && n.Cluster().Shards().Held() == 0
	}, "nobody confirms that it may")
	n.Faults().Reconnect()
	c.Eventually(nodetest.IsBalanced(c, 1), "it goes on")
	now, ok := n.Cluster().Shards().Serves(0)
	require.True(t, ok)
	require.Equal(t, epoch, now, "nobody else had it")
}
