package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
)

func TestTransfer(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3)
	first, last := c.Node(0).Address(), c.Node(2).Address()
	c.WaitLeaderIs(first)
	before := c.Node(0).Cluster().Leader().Token
	o := openOperator(t, c)
	outcome, err := o.Transfer(testContext(t), patience, last)
	require.NoError(t, err)
	require.Equal(t, Outcome{LeaderID: last, Term: outcome.Token, Token: outcome.Token,
		PreviousLeaderID: first, PreviousToken: before, Moved: true}, outcome)
	require.Greater(t, outcome.Token, before)
	c.WaitLeaderIs(last)
	require.Contains(t, printedOutcome(t, outcome), last+" leads now (token ")

	again, err := o.Transfer(testContext(t), patience, last)
	require.NoError(t, err)
	require.Equal(t, outcome.Token, again.Token)
	require.False(t, again.Moved)
	require.Contains(t, printedOutcome(t, again), last+" leads already")
	requireNothingLeft(t, c)
}

func TestResign(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	first, second := c.Node(0).Address(), c.Node(1).Address()
	c.WaitLeaderIs(first)
	outcome, err := openOperator(t, c).Resign(testContext(t), patience)
	require.NoError(t, err)
	require.Equal(t, second, outcome.LeaderID)
	require.Equal(t, first, outcome.PreviousLeaderID)
	require.True(t, outcome.Moved)
	c.WaitQueue(second, first)
	requireNothingLeft(t, c)
}

func TestResignOfOneThatIsAlone(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	c.WaitLeaderIs(c.Node(0).Address())
	outcome, err := openOperator(t, c).Resign(testContext(t), patience)
	require.NoError(t, err)
	require.Equal(t, c.Node(0).Address(), outcome.LeaderID)
	require.Greater(t, outcome.Token, outcome.PreviousToken)
	require.False(t, outcome.Moved)
	require.Contains(t, printedOutcome(t, outcome), "leads again")
}

func TestMovesThatAreImpossible(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 0)
	o := openOperator(t, c)
	_, err := o.Resign(testContext(t), patience)
	require.ErrorIs(t, err, ErrNoNodes)
	_, err = o.Transfer(testContext(t), patience, "127.0.0.1:1")
	require.ErrorIs(t, err, ErrNoNodes)
	c.WaitLeaderIs(c.AddNode().Address())
	_, err = o.Transfer(testContext(t), patience, "127.0.0.1:1")
	require.ErrorIs(t, err, leaderelection.ErrNotMember)
	requireNothingLeft(t, c)
}

// A leader without a view cannot obey a request. The wait is limited, and the request does not stay behind to
// affect a later leader.
func TestMoveThatTakesTooLong(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithTTL(10))
	c.WaitLeaderIs(c.Node(0).Address())
	c.Node(0).Faults().FreezeWatch()
	began := time.Now()
	_, err := openOperator(t, c).Resign(testContext(t), 2*time.Second)
	require.ErrorIs(t, err, leaderelection.ErrNotMoved)
	require.ErrorContains(t, err, "--timeout")
	require.Less(t, time.Since(began), 10*time.Second)
	requireNothingLeft(t, c)
	c.Node(0).Faults().ThawWatch()
}

func printedOutcome(t *testing.T, o Outcome) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, PrintOutcome(&out, o, false))
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	return out.String()
}
