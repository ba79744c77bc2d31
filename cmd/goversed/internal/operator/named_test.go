package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/nodetest"
)

func TestNamedElections(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3)
	o := openOperator(t, c)
	all, err := o.Elections(testContext(t), time.Minute, ListQuery{})
	require.NoError(t, err)
	require.Equal(t, List[NamedElection]{Items: []NamedElection{}}, all)
	stand := func(i int, name string, opts ...leaderelection.StandOption) *cluster.Candidate {
		e, err := c.Node(i).Cluster().Elections().Stand(name, opts...)
		require.NoError(t, err)
		c.Eventually(func() bool { return strings.Contains(strings.Join(e.Queue(), " "), c.Node(i).Address()) }, "it stands")
		return e
	}
	a, b, third := c.Node(0).Address(), c.Node(1).Address(), c.Node(2).Address()
	first := stand(0, "outbox")
	second := stand(1, "outbox")
	stand(2, "outbox", leaderelection.Priority(-1))
	stand(1, "a name/with, all")
	c.Eventually(first.IsLeader, "it leads")

	all, err = o.Elections(testContext(t), time.Minute, ListQuery{})
	require.NoError(t, err)
	require.Len(t, all.Items, 2)
	require.Equal(t, NamedElection{Name: "outbox", LeaderID: a, Token: first.Leader().Token,
		Candidates: []NamedCandidate{{a, 0, true}, {b, 0, true}, {third, -1, true}}}, all.Items[1])

	before := first.Leader().Token
	out, err := o.TransferElection(testContext(t), patience, "outbox", b)
	require.NoError(t, err)
	c.Eventually(second.IsLeader, "it leads")
	require.Equal(t, Outcome{LeaderID: b, Term: out.Token, Token: second.Leader().Token, PreviousLeaderID: a,
		PreviousToken: before, Moved: true}, out)
	out, err = o.TransferElection(testContext(t), patience, "outbox", b)
	require.NoError(t, err)
	require.False(t, out.Moved)
	_, err = o.TransferElection(testContext(t), patience, "outbox", third)
	require.ErrorIs(t, err, leaderelection.ErrPreferred)
	_, err = o.TransferElection(testContext(t), patience, "outbox", "127.0.0.1:1")
	require.ErrorIs(t, err, leaderelection.ErrNotCandidate)
	_, err = o.TransferElection(testContext(t), patience, "nothing", b)
	require.ErrorIs(t, err, leaderelection.ErrNoLeader)
	require.ErrorContains(t, err, "goversed elections shows")

	out, err = o.ResignElection(testContext(t), patience, "a name/with, all")
	require.NoError(t, err)
	require.False(t, out.Moved)
	require.Greater(t, out.Token, out.PreviousToken)

	// The wait for a leader of a version without requests is limited, and nothing is left behind.
	_, err = c.Client().Put(testContext(t), nodetest.Keys.Elections().EntryKey("old", 1, 1, state.EntryTraits{}), "old:1")
	require.NoError(t, err)
	stand(0, "old")
	_, err = o.TransferElection(testContext(t), time.Second, "old", a)
	require.ErrorIs(t, err, leaderelection.ErrNotMoved)
	requests, err := c.Client().Get(testContext(t), nodetest.Keys.Elections().Requests().Root(), clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range requests.Kvs {
		require.NotContains(t, string(kv.Key), "!")
	}
	requireNothingLeft(t, c)
}

func TestPrintElections(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	all := List[NamedElection]{Items: []NamedElection{
		{Name: "a name", LeaderID: "a:1", Token: 7, Candidates: []NamedCandidate{{"a:1", 0, true}}},
		{Name: "b", LeaderID: "elsewhere", Token: 8, Candidates: []NamedCandidate{{"elsewhere", 0, false}, {"b:1", 2, true},
			{"c:1", 0, true}}},
	}}
	require.NoError(t, PrintElections(&out, "under /p", all, false))
	require.Equal(t, `ELECTION  LEADER                          TOKEN  NEXT
"a name"  a:1                             7      -
b         elsewhere (not a Goverse node)  8      b:1 (priority 2), c:1
`, out.String())
	out.Reset()
	require.NoError(t, PrintElections(&out, "under /p", List[NamedElection]{}, false))
	require.Equal(t, "no named election under /p has candidates\n", out.String())
	out.Reset()
	cut := List[NamedElection]{Items: all.Items[:1], More: true, Next: `"a name"`}
	require.NoError(t, PrintElections(&out, "under /p", cut, true))
	require.JSONEq(t, `{"items": [{"name": "a name", "leader_id": "a:1", "token": 7,
		"candidates": [{"address": "a:1", "priority": 0, "member": true}]}], "more": true, "next": "\"a name\""}`,
		out.String())
}
