package cluster_test

import (
	"testing"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/once/oncetest"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

func TestEffectsConform(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithTTL(nodetest.LongTTL), nodetest.WithSharding(cluster.Sharding{Off: true}))
	oncetest.Run(t, func(*testing.T) (a, b once.Registry) {
		return c.Node(0).Cluster().Effects(), c.Node(1).Cluster().Effects()
	})
}
