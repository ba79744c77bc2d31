package leaderelection_test

import (
	"testing"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/stretchr/testify/require"
)

// Guards: the same, for a node that is next to lead. It must notice its turn while its watch stays frozen.
func TestFrozenNodeStillTakesItsTurn(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	c.WaitLeaderIs(c.Node(0).Address())
	victim := c.Node(1)
	victim.Faults().FreezeWatch()
	for range 3 {
		require.NoError(t, c.Node(0).Cluster().Resign(etcdtest.Context(t)))
		c.Eventually(victim.IsLeader, "the frozen node leads in its turn")
		require.NoError(t, victim.Cluster().Resign(etcdtest.Context(t)))
		c.Eventually(c.Node(0).IsLeader, "the other leads")
		c.Eventually(func() bool { return len(queueKeys(t, c)) == 2 }, "the frozen node queues again")
	}
}
