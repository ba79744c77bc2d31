package nodetest

import (
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
)

// WithSharding configures every node's sharding.
func WithSharding(s cluster.Sharding) clustertest.Option {
	return clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Sharding = s })
}

// CountServed counts the shards that one, none, or several of the live nodes serve at this instant.
func CountServed(c *clustertest.Cluster) (once, none, twice int) {
	nodes := c.Live()
	for shard := range nodes[0].Cluster().Shards().Count() {
		n := 0
		for _, node := range nodes {
			if _, ok := node.Cluster().Shards().Serves(shard); ok {
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

// IsBalanced returns a function that reports whether that many nodes live, each shard is served by exactly one of
// them, and the shard counts of any two nodes differ by at most one.
func IsBalanced(c *clustertest.Cluster, nodes int) func() bool {
	return func() bool {
		once, none, twice := CountServed(c)
		if none > 0 || twice > 0 {
			return false
		}
		least, most := once, 0
		live := c.Live()
		for _, n := range live {
			held := n.Cluster().Shards().Held()
			least, most = min(least, held), max(most, held)
		}
		return len(live) == nodes && most-least <= 1
	}
}
