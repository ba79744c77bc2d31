package nodetest

import (
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
)

// Sharded sets every node's sharding.
func Sharded(s cluster.Sharding) clustertest.Option {
	return clustertest.WithConfig(func(_ int, cfg *cluster.Config) { cfg.Sharding = s })
}

// Served counts how many live nodes serve each shard at this instant.
func Served(c *clustertest.Cluster) (once, none, twice int) {
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

// Balanced reports, when called, whether so many nodes live, each shard is served by one of them, and none has
// two more than another.
func Balanced(c *clustertest.Cluster, nodes int) func() bool {
	return func() bool {
		once, none, twice := Served(c)
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
