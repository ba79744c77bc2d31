package cluster_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/pace"
)

// eventLog waits until the log, as read by a node, has a matching event. It returns that event and the whole log.
func eventLog(t *testing.T, c *cluster.Cluster, what string, is func(event.Event) bool) (event.Event, []event.Event) {
	t.Helper()
	var events []event.Event
	var found event.Event
	require.Eventually(t, func() bool {
		var err error
		events, _, err = c.Events().List(etcdtest.Context(t), event.Query{})
		require.NoError(t, err)
		i := slices.IndexFunc(events, is)
		if i < 0 {
			return false
		}
		found = events[i]
		return true
	}, 20*time.Second, 10*time.Millisecond, what)
	return found, events
}

func of(typ event.Type, node string) func(event.Event) bool {
	return func(e event.Event) bool { return e.Type == typ && e.Node == node }
}

// requireOnce requires that the log has no event twice, and that events are ordered by time.
func requireOnce(t *testing.T, events []event.Event) {
	t.Helper()
	seen := map[string]bool{}
	for i, e := range events {
		require.False(t, seen[e.ID], "%s is there twice", e.ID)
		seen[e.ID] = true
		require.NotZero(t, e.Seq)
		require.NotEmpty(t, e.RecordedBy)
		require.WithinDuration(t, time.Now(), e.Time, time.Minute)
		if i > 0 {
			require.False(t, e.Time.Before(events[i-1].Time), "in the order of their times")
		}
	}
}

func TestEventsOfALeaderThatGivesWay(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, nodetest.WithSharding(cluster.Sharding{Shards: 64, Window: 20 * time.Millisecond}))
	first, second, third := c.Node(0), c.Node(1), c.Node(2)
	c.WaitLeaderIs(first.Address())
	token := first.Cluster().Leader().Token
	for _, n := range c.Nodes() {
		_, _ = eventLog(t, first.Cluster(), "it joined", of(event.NodeJoined, n.Address()))
	}
	elected, _ := eventLog(t, third.Cluster(), "the first leads", of(event.LeaderElected, first.Address()))
	require.Equal(t, token, elected.Token)
	shards, _ := eventLog(t, third.Cluster(), "the shards are assigned", func(e event.Event) bool {
		return e.Type == event.ShardsRebalanced
	})
	require.Equal(t, 64, shards.Moved)

	require.NoError(t, first.Cluster().Resign(etcdtest.Context(t)))
	lost, _ := eventLog(t, second.Cluster(), "it resigned", of(event.LeaderLost, first.Address()))
	require.Equal(t, token, lost.Token)
	require.Equal(t, string(leaderelection.ReasonResigned), lost.Reason)
	require.Equal(t, first.Address(), lost.RecordedBy, "who knows why")
	_, _ = eventLog(t, third.Cluster(), "the second leads", of(event.LeaderElected, second.Address()))

	require.NoError(t, third.Cluster().Transfer(etcdtest.Context(t), third.Address()))
	lost, _ = eventLog(t, first.Cluster(), "it was asked", of(event.LeaderLost, second.Address()))
	require.Equal(t, string(leaderelection.ReasonRequested), lost.Reason)

	third.Stop()
	lost, _ = eventLog(t, first.Cluster(), "it stopped", of(event.LeaderLost, third.Address()))
	require.Equal(t, string(leaderelection.ReasonStopped), lost.Reason)
	_, events := eventLog(t, first.Cluster(), "it left", of(event.NodeLeft, third.Address()))
	requireOnce(t, events)
}

func TestEventsOfFaults(t *testing.T) {
	t.Parallel()
	c, meter := clustertest.New(t, 4), pace.StartMeter(t)
	leader := c.Node(0)
	c.WaitLeaderIs(leader.Address())
	leader.Kill()
	removed, _ := eventLog(t, c.Node(1).Cluster(), "its process is gone", of(event.NodeRemoved, leader.Address()))
	require.NotEmpty(t, removed.Peer)
	require.NotEmpty(t, removed.Reason)
	accused, _ := eventLog(t, c.Node(1).Cluster(), "it was accused", of(event.NodeAccused, leader.Address()))
	lost, _ := eventLog(t, c.Node(1).Cluster(), "its term is over", of(event.LeaderLost, leader.Address()))
	require.Equal(t, event.ReasonRemoved, lost.Reason)
	elected, _ := eventLog(t, c.Node(1).Cluster(), "the next one leads", of(event.LeaderElected, c.Node(1).Address()))
	require.InDelta(t, elected.Time.Sub(accused.Time).Seconds(), elected.Seconds,
		meter.Scale(200*time.Millisecond).Seconds(), "from the accusation on, by the views of two nodes at most")
	require.Positive(t, elected.Seconds)

	c.RevokeLease(c.Node(1))
	_, _ = eventLog(t, c.Node(2).Cluster(), "its lease is gone", of(event.NodeLost, c.Node(1).Address()))
	gone, _ := eventLog(t, c.Node(2).Cluster(), "it says so itself", of(event.SessionLost, c.Node(1).Address()))
	require.Equal(t, "revoked", gone.Reason)
	require.Equal(t, c.Node(1).Address(), gone.RecordedBy)
	require.Positive(t, gone.Seconds)

	now := c.WaitLeader()
	token := now.Cluster().Leader().Token
	c.DeleteCandidateKey(now)
	lost, events := eventLog(t, c.Node(2).Cluster(), "by somebody's hand", func(e event.Event) bool {
		return e.Type == event.LeaderLost && e.Token == token
	})
	require.Equal(t, string(leaderelection.ReasonKeyLost), lost.Reason)
	requireOnce(t, events)
}

// While there is no candidate, the oldest member records that there is no leader. Once there is one again, an
// event gives the duration.
func TestEventsOfAClusterThatNobodyLeads(t *testing.T) {
	t.Parallel()
	var alone atomic.Bool
	alone.Store(true)
	c := clustertest.New(t, 3, clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.Observer = i > 0 && alone.Load()
	}))
	c.WaitLeaderIs(c.Node(0).Address())
	token := c.Node(0).Cluster().Leader().Token
	c.Node(0).Stop()
	degraded, _ := eventLog(t, c.Node(1).Cluster(), "nobody leads", func(e event.Event) bool {
		return e.Type == event.ClusterDegraded
	})
	require.Equal(t, token, degraded.Token)
	started, _ := eventLog(t, c.Node(1).Cluster(), "an election", func(e event.Event) bool {
		return e.Type == event.ElectionStarted && e.Token == token
	})
	// The log is read from etcd; this node's own view may be older.
	c.Eventually(func() bool { return len(c.Node(1).Cluster().Members()) == 2 }, "it sees that the leader is gone")
	oldest := slices.MinFunc(c.Node(1).Cluster().Members(), func(a, b cluster.Member) int {
		return cmp.Compare(a.Incarnation, b.Incarnation) // they started at the same time
	})
	// The node that stops is a member, and the oldest, until it has stopped.
	require.Contains(t, []string{oldest.Address, c.Node(0).Address()}, started.RecordedBy)
	require.Contains(t, []string{oldest.Address, c.Node(0).Address()}, degraded.RecordedBy)
	alone.Store(false)
	c.AddNode()
	recovered, events := eventLog(t, c.Node(1).Cluster(), "there is a leader again", func(e event.Event) bool {
		return e.Type == event.ClusterRecovered
	})
	require.GreaterOrEqual(t, recovered.Seconds, 1.0)
	requireOnce(t, events)
}

// When both of two nodes stop at the same time, each records that it left.
func TestEventsOfNodesThatStopAtOnce(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	c.WaitLeaderIs(c.Node(0).Address())
	for _, n := range c.Nodes() {
		_, _ = eventLog(t, c.Node(0).Cluster(), "it joined", of(event.NodeJoined, n.Address()))
	}
	var stopping sync.WaitGroup
	for _, n := range c.Nodes() {
		stopping.Go(n.Stop)
	}
	stopping.Wait()
	reader := c.AddNode()
	for _, n := range c.Nodes()[:2] {
		_, events := eventLog(t, reader.Cluster(), "it left", of(event.NodeLeft, n.Address()))
		requireOnce(t, events)
	}
}

func TestFollowEvents(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2)
	c.WaitLeaderIs(c.Node(0).Address())
	_, before := eventLog(t, c.Node(1).Cluster(), "a leader", of(event.LeaderElected, c.Node(0).Address()))
	enough := errors.New("enough")
	var seqs []int64
	next := func(after int64, until event.Type) (last event.Event) {
		err := c.Node(1).Cluster().Events().ForEach(etcdtest.Context(t), after, func(e event.Event) error {
			seqs = append(seqs, e.Seq)
			if last = e; e.Type == until {
				return enough
			}
			return nil
		})
		require.ErrorIs(t, err, enough)
		return last
	}
	elected := next(0, event.LeaderElected)
	require.Equal(t, c.Node(0).Address(), elected.Node)
	require.LessOrEqual(t, len(seqs), len(before))
	require.NoError(t, c.Node(0).Cluster().Resign(etcdtest.Context(t)))
	require.Equal(t, c.Node(1).Address(), next(elected.Seq, event.LeaderElected).Node)
	require.True(t, slices.IsSorted(seqs))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, c.Node(0).Cluster().Events().ForEach(ctx, 0, func(event.Event) error { return nil }))
	c.Node(0).Stop()
	_, _, err := c.Node(0).Cluster().Events().List(etcdtest.Context(t), event.Query{})
	require.ErrorIs(t, err, cluster.ErrStopped)
	require.Nil(t, c.Node(0).Cluster().Events().Recent())
	require.NotEmpty(t, c.Node(1).Cluster().Events().Recent())
}

// Events of programs are in the log and in the order of their calls, on every node, with the address of the node that
// recorded them.
func TestRecordEvents(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(i int, cfg *cluster.Config) { cfg.Events.Off = i == 1 }))
	ctx, first, second := etcdtest.Context(t), c.Node(0), c.Node(1)
	require.NoError(t, first.Cluster().Events().Record(ctx, "app_begin", map[string]string{"file": "a"}))
	require.NoError(t, first.Cluster().Events().Record(ctx, "app_end", nil))
	require.ErrorIs(t, first.Cluster().Events().Record(ctx, event.NodeLeft, nil), cluster.ErrBadEvent)
	require.ErrorIs(t, second.Cluster().Events().Record(ctx, "app_begin", nil), cluster.ErrEventLogOff)

	enough := errors.New("enough")
	var got []event.Event
	require.ErrorIs(t, second.Cluster().Events().ForEach(ctx, 0, func(e event.Event) error {
		if e.Type.OfProgram() {
			got = append(got, e)
		}
		if e.Type == "app_end" {
			return enough
		}
		return nil
	}), enough)
	require.Len(t, got, 2)
	require.Equal(t, event.Type("app_begin"), got[0].Type)
	require.Equal(t, first.Address(), got[0].Node)
	require.JSONEq(t, `{"file":"a"}`, string(got[0].Data))
	require.Empty(t, got[1].Data)
	listed, more, err := second.Cluster().Events().List(ctx, event.Query{Types: []event.Type{"app_end"}, Limit: 1})
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, got[1].ID, listed[0].ID)
	for _, e := range first.Cluster().Events().Recent() {
		require.False(t, e.Type.OfProgram())
	}

	require.Eventually(t, func() bool {
		return errors.Is(first.Cluster().Events().Record(ctx, "app_flood", nil), cluster.ErrEventRate)
	}, time.Minute, time.Millisecond)
	first.Stop()
	require.ErrorIs(t, first.Cluster().Events().Record(ctx, "app_end", nil), cluster.ErrStopped)
}

// A call that waits for etcd ends with the node.
func TestRecordEndsWithTheNode(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 1)
	n := c.Node(0)
	held := n.Faults().HoldNext(etcdfault.OpTxn, etcdfault.Putting(clustertest.Prefix+"/events/app_x"))
	recorded := make(chan error, 1)
	go func() { recorded <- n.Cluster().Events().Record(context.Background(), "app_x", nil) }()
	<-held.Caught()
	n.Stop()
	require.ErrorIs(t, <-recorded, cluster.ErrStopped)
}
