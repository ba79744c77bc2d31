package objects_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/probepb"
)

// restore replaces the data of an etcd by a backup, and starts it again. Revisions then go back;
// docs/operate/backup.md warns of that.
func restore(t *testing.T, etcd *embedetcd.Server, cfg embedetcd.Config, backup string) *embedetcd.Server {
	require.NoError(t, etcd.Close())
	require.NoError(t, os.RemoveAll(cfg.DataDir))
	require.NoError(t, snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{SnapshotPath: backup, Name: "goverse",
		OutputDataDir: cfg.DataDir, PeerURLs: []string{"http://127.0.0.1:2380"},
		InitialCluster: "goverse=http://127.0.0.1:2380", InitialClusterToken: "restored"}))
	etcd, err := embedetcd.Start(patient(t), cfg)
	require.NoError(t, err)
	return etcd
}

// generationOf returns the generation of a node's map. Without a map it returns the largest number.
func generationOf(c *cluster.Cluster) int64 {
	table, err := c.ShardTable()
	if err != nil {
		return math.MaxInt64
	}
	return table.Generation
}

// Once etcd was restored from an older backup, generations that callers knew before are void. Calls that waited
// meanwhile end, and at the next drain no call waits for a map that will not come.
func TestCallsThatWaitWhileEtcdIsRestored(t *testing.T) {
	t.Parallel()
	address, err := port.Restarted.Loopback(1)
	require.NoError(t, err)
	cfg := embedetcd.TestTiming(embedetcd.Config{DataDir: filepath.Join(t.TempDir(), "etcd"), ListenClient: address[0]})
	etcd, err := embedetcd.Start(patient(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = etcd.Close() }) // the one that then runs
	w, release := &probepb.World{}, make(chan struct{})
	w.SetAction("wait", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &probepb.DoResponse{}, nil
	})
	var nodes []*cluster.Cluster
	for range 3 {
		nodes = append(nodes, bareNode(t, address[0], 3, w))
	}
	well := func() bool { return serving(nodes) == 16 }
	require.Eventually(t, well, time.Minute, time.Millisecond)
	backup := filepath.Join(t.TempDir(), "backup.db")
	_, err = snapshot.NewV3(zap.NewNop()).Save(t.Context(), clientv3.Config{Endpoints: address}, backup)
	require.NoError(t, err)
	writeOften(t, address[0], 2000)
	drainOnce(t, nodes, 2) // the map changes
	later := generationOf(nodes[0])

	var wg sync.WaitGroup
	var ended atomic.Int64
	for i := range 200 { // one call for each of 20 objects runs, and the others wait
		wg.Go(func() {
			_, _ = probepb.NewProbeClient(nodes[i%3].Objects().At(fmt.Sprint("key", i%20))).Do(patient(t),
				&probepb.DoRequest{What: "wait"})
			ended.Add(1)
		})
	}
	require.Eventually(t, func() bool { return waitingAt(nodes...) == 180 }, time.Minute, time.Millisecond)
	etcd = restore(t, etcd, cfg, backup)
	if !assert.Eventually(t, func() bool {
		for _, c := range nodes {
			if !c.Session().Valid() || generationOf(c) >= later {
				return false
			}
		}
		return well()
	}, 20*time.Second, time.Millisecond, "all nodes are well, by a map from before") {
		for _, c := range nodes {
			t.Logf("%s: session valid %v, generation %d, before the restore %d; %+v", c.Node().AdvertiseAddress(),
				c.Session().Valid(), generationOf(c), later, c.Status())
		}
		t.FailNow()
	}
	require.Eventually(t, func() bool { return waitingAt(nodes...)+ended.Load() >= 180 }, time.Minute, time.Millisecond,
		"those that had to look for their objects anew wait again")
	leaves := slices.MaxFunc(nodes, func(a, b *cluster.Cluster) int { return cmp.Compare(waitingAt(a), waitingAt(b)) })
	t.Logf("%d calls have ended; %d wait, %d of them at the node that is drained", ended.Load(), waitingAt(nodes...),
		waitingAt(leaves))
	require.Positive(t, waitingAt(leaves))
	drained := make(chan error, 1)
	go func() {
		_, err := leaves.Drain(patient(t), leaves.Node().AdvertiseAddress())
		drained <- err
	}()
	require.Eventually(t, func() bool { return isDraining(leaves) }, time.Minute, time.Millisecond)
	close(release)
	began := time.Now()
	require.Eventually(t, func() bool { return ended.Load() == 200 }, 5*time.Second, time.Millisecond, "nobody waits")
	t.Logf("all have ended %v later, while the node is drained", time.Since(began))
	wg.Wait()
	require.NoError(t, <-drained)
}

// writeOften raises etcd's revision, which is the generation of the next map, far beyond those of a restored
// etcd.
func writeOften(t *testing.T, address string, times int) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	require.NoError(t, err)
	defer client.Close()
	for range times {
		_, err := client.Put(patient(t), "something else", "")
		require.NoError(t, err)
	}
}

// waitingAt returns the number of calls that wait for their turn.
func waitingAt(nodes ...*cluster.Cluster) (n int64) {
	for _, c := range nodes {
		for _, s := range c.Objects().Stats().Services {
			n += s.Waiting
		}
	}
	return n
}

// isDraining reports whether a node is, or was, being drained, as far as it knows.
func isDraining(c *cluster.Cluster) bool {
	table, err := c.ShardTable()
	return err == nil && slices.ContainsFunc(table.Owners, func(o shard.OwnerRow) bool {
		return o.Address == c.Node().AdvertiseAddress() && o.State == shard.Draining
	})
}

// drainOnce drains a node, and then lets it take part again.
func drainOnce(t *testing.T, nodes []*cluster.Cluster, i int) {
	address := nodes[i].Node().AdvertiseAddress()
	_, err := nodes[i].Drain(patient(t), address)
	require.NoError(t, err)
	_, err = nodes[i].Undrain(patient(t), address)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return nodes[i].Status().Shards.Serving > 0 && serving(nodes) == 16 },
		20*time.Second, time.Millisecond)
}
