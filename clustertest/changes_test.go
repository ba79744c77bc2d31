package clustertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/election"
)

// Guards: fallback asks for an election that failed, not for a leader that is
// unknown (decide's entitledToAct, ConsensusManager.Mode): between two terms
// there is none.
func TestLeaderChangesAreNeverFallback(t *testing.T) {
	t.Parallel()
	c := New(t, 3)
	c.WaitLeaderIs(c.Node(0).Address())
	s := sample(c)
	var last int64
	for range *changes {
		var term election.Term
		leader := c.Node(0)
		c.Eventually(func() bool {
			leader = c.WaitLeader()
			term = leader.Cluster().Term()
			return term != nil && term.Token() > last
		}, "the next leads, with a greater token than %d", last)
		last = term.Token()
		require.NoError(t, leader.Cluster().Resign(patient(t)))
	}
	s.end(t)
	require.Zero(t, s.fallback, "reports of fallback in %d samples", s.samples)
}
