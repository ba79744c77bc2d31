package leaderelection_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
)

// Guards: the condition for fallback, which is a failed election and not an unknown leader (entitledToAct in
// decide, ConsensusManager.Mode). Between two terms there is no leader.
func TestLeaderChangesAreNeverFallback(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3)
	c.WaitLeaderIs(c.Node(0).Address())
	s := nodetest.StartSampler(c)
	var last int64
	for range *changes {
		var term leaderelection.Term
		leader := c.Node(0)
		c.Eventually(func() bool {
			leader = c.WaitLeader()
			term, _ = leader.Cluster().Term()
			return term != nil && term.Token() > last
		}, "the next leads, with a greater token than %d", last)
		last = term.Token()
		require.NoError(t, leader.Cluster().Resign(etcdtest.Context(t)))
	}
	s.Stop(t)
	require.Zero(t, s.Fallback, "reports of fallback in %d samples", s.Samples)
}
