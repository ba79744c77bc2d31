package clustertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
)

func TestReadyQuicklyInTheOrderOfNumbers(t *testing.T) {
	began := time.Now()
	c := New(t, 3)
	c.WaitLeaderIs(c.Node(0).Address())
	t.Logf("ready after %v", time.Since(began))
	c.WaitQueue(c.Node(0).Address(), c.Node(1).Address(), c.Node(2).Address())
	require.Same(t, c.Node(0), c.WaitLeader())
	require.Equal(t, c.Node(0).Address(), c.WaitAgreed())
	require.Same(t, c.Node(2), c.NodeAt(c.Node(2).Address()))
	require.Nil(t, c.NodeAt("localhost:1"))
}

func TestStopHandsOverAndANewNodeQueuesAtTheTail(t *testing.T) {
	c := New(t, 2)
	c.WaitLeaderIs(c.Node(0).Address())
	c.Node(0).Stop()
	require.False(t, c.Node(0).IsLeader())
	c.WaitLeaderIs(c.Node(1).Address())
	added := c.AddNode()
	c.WaitQueue(c.Node(1).Address(), added.Address())
}

func TestKillLeavesTheLease(t *testing.T) {
	t.Parallel()
	c := New(t, 2, detection(cluster.CrashDetection{Off: true}))
	c.WaitLeaderIs(c.Node(0).Address())
	key := c.keys.Candidate(int64(c.Node(0).Lease()))
	c.Node(0).Kill()
	require.Contains(t, queueKeys(t, c), key, "a node that vanishes takes nothing with it")
	c.WaitLeaderIs(c.Node(1).Address())
	require.NotContains(t, queueKeys(t, c), key)
}

func TestCutOffNodeGoesQuietAndComesBack(t *testing.T) {
	t.Parallel()
	c := New(t, 3)
	c.WaitLeaderIs(c.Node(0).Address())
	c.Node(0).Faults().CutOff()
	require.Contains(t, c.Describe(), "cut off")
	c.WaitLeaderIs(c.Node(1).Address())
	require.False(t, c.Node(0).IsLeader())
	require.Empty(t, c.Node(0).Cluster().GetLeaderNode(), "who is cut off cannot say")
	c.Node(0).Faults().Reconnect()
	c.WaitQueue(c.Node(1).Address(), c.Node(2).Address(), c.Node(0).Address())
	require.Empty(t, c.Node(0).Faults().String())
}

func TestStoppedRenewalsEndTheSession(t *testing.T) {
	t.Parallel()
	c := New(t, 2)
	lease := c.Node(1).Lease()
	c.Node(1).Faults().StopRenewing()
	c.Eventually(func() bool { return c.Node(1).Lease() != lease }, "the session is lost")
	c.Node(1).Faults().ResumeRenewing()
	c.WaitQueue(c.Node(0).Address(), c.Node(1).Address())
	require.Positive(t, c.Node(1).Cluster().Status().SessionsLost)
}

func TestRequestsFailAreHeldAndLoseTheirAnswers(t *testing.T) {
	c := New(t, 1)
	n, key := c.Node(0), "/elsewhere/key"
	put := func(value string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(patient(t), within)
		defer cancel()
		_, err := n.client.Put(ctx, key, value)
		return err
	}
	stored := func() string {
		resp, err := n.client.Get(patient(t), key)
		require.NoError(t, err)
		if len(resp.Kvs) == 0 {
			return ""
		}
		return string(resp.Kvs[0].Value)
	}
	broken := errors.New("broken")
	n.Faults().FailNext(OpPut, broken, Putting(key))
	require.NoError(t, func() error { _, err := n.client.Put(patient(t), "/elsewhere/other", ""); return err }())
	require.ErrorIs(t, put("a", time.Minute), broken)
	require.Empty(t, stored())

	n.Faults().LoseAnswer(OpPut, Putting(key))
	require.ErrorIs(t, put("b", time.Second), context.DeadlineExceeded)
	require.Equal(t, "b", stored())

	held := n.Faults().HoldNext(OpPut, Putting(key))
	require.Error(t, held.Release(patient(t)), "nothing was caught")
	require.ErrorIs(t, put("c", 50*time.Millisecond), context.DeadlineExceeded)
	caught(t, held)
	require.NoError(t, put("d", time.Minute))
	require.NoError(t, held.Release(patient(t)))
	require.Equal(t, "c", stored(), "the older request came through later")
	require.Error(t, held.Release(patient(t)), "once")
}

func TestFrozenWatchDeliversNothingUntilThawed(t *testing.T) {
	c := New(t, 1)
	n := c.Node(0)
	ctx := patient(t)
	before := n.client.Watch(ctx, "/elsewhere")
	n.Faults().FreezeWatch()
	during := make(chan clientv3.WatchChan)
	go func() { during <- n.client.Watch(ctx, "/elsewhere") }()
	_, err := n.client.Put(ctx, "/elsewhere", "x")
	require.NoError(t, err, "requests work")
	quiet := time.After(100 * time.Millisecond)
	select {
	case <-before:
		t.Fatal("a watch under way delivered")
	case <-during:
		t.Fatal("a new watch was opened")
	case <-quiet:
	}
	n.Faults().ThawWatch()
	require.Len(t, (<-before).Events, 1)
	require.NotNil(t, <-during)
}
