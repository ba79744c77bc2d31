package clustertest

import (
	"testing"
	"time"

	"github.com/goverse/goverse/cluster"
)

func sharded(s cluster.Sharding) Option {
	return WithConfig(func(_ int, cfg *cluster.Config) { cfg.Sharding = s })
}

// served counts who serves each shard at this instant.
func served(c *Cluster) (once, none, twice int) {
	nodes := c.live()
	for shard := range nodes[0].cluster.Shards().Count() {
		n := 0
		for _, node := range nodes {
			if _, ok := node.cluster.Shards().Serves(shard); ok {
				n++
			}
		}
		switch n {
		case 0:
			none++
		case 1:
			once++
		default:
			twice++
		}
	}
	return once, none, twice
}

func balanced(c *Cluster, nodes int) func() bool {
	return func() bool {
		once, none, twice := served(c)
		if none > 0 || twice > 0 {
			return false
		}
		least, most := once, 0
		live := c.live()
		for _, n := range live {
			held := n.cluster.Shards().Held()
			least, most = min(least, held), max(most, held)
		}
		return len(live) == nodes && most-least <= 1
	}
}

func TestShardsFollowTheMembers(t *testing.T) {
	t.Parallel()
	c := New(t, 3, sharded(cluster.Sharding{Window: 50 * time.Millisecond}))
	began := time.Now()
	c.Eventually(balanced(c, 3), "8192 shards are spread over three")
	t.Logf("spread over three %v after the start", time.Since(began))
	began = time.Now()
	c.Node(0).Stop()
	t.Logf("stopped in %v", time.Since(began))
	began = time.Now()
	c.Eventually(balanced(c, 2), "two have all")
	t.Logf("all served %v after that", time.Since(began))
	began = time.Now()
	c.Node(1).Kill()
	c.Eventually(balanced(c, 1), "the last one has all")
	t.Logf("all served %v after a kill", time.Since(began))
}
