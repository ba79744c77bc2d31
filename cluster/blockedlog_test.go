package cluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/clustertest"
)

// hanging is a log's writer. From block until release its writes block.
type hanging struct {
	mu   sync.Mutex
	gate chan struct{} // nil: writes succeed
}

func (h *hanging) Write(p []byte) (int, error) {
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return len(p), nil
}

func (h *hanging) block() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gate := make(chan struct{})
	h.gate = gate
	return sync.OnceFunc(func() {
		h.mu.Lock()
		h.gate = nil
		h.mu.Unlock()
		close(gate)
	})
}

// within requires that call succeeds before, or shortly after, its context ends.
func within(t *testing.T, what string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	select {
	case err := <-done:
		require.NoError(t, err, what)
	case <-time.After(20 * time.Second):
		t.Fatalf("%s waits for a log that nobody reads", what)
	}
}

// A node with a blocked log works as usual: it leads, hands over and stops.
func TestALogThatNobodyReads(t *testing.T) {
	t.Parallel()
	sink := new(hanging)
	log := hclog.New(&hclog.LoggerOptions{Output: sink, Level: hclog.Trace})
	c := clustertest.New(t, 2, clustertest.WithLogger(log), clustertest.WithTTL(5),
		clustertest.WithPatience(30*time.Second))
	first, second := c.Node(0), c.Node(1)
	c.WaitLeaderIs(first.Address())
	release := sink.block()
	t.Cleanup(release)
	turns := func(leads, follows *clustertest.Node) {
		c.WaitQueue(leads.Address(), follows.Address())
		within(t, "Resign", leads.Cluster().Resign)
		within(t, "the next term", func(ctx context.Context) error {
			_, err := follows.Cluster().WaitForLeader(ctx)
			return err
		})
		c.WaitLeaderIs(follows.Address())
	}
	turns(first, second)
	turns(second, first)
	n := first.Cluster()
	var st cluster.Status
	within(t, "Status", func(context.Context) error { st = n.Status(); return nil })
	require.True(t, st.IsLeader)
	require.Positive(t, st.Log.Waiting)
	require.Positive(t, st.Log.StalledFor)
	within(t, "AsLeader", func(ctx context.Context) error {
		return n.AsLeader(ctx, func(context.Context, leaderelection.Term) error { return nil })
	})
	within(t, "a lock", func(ctx context.Context) error {
		held, err := n.Locks().Acquire(ctx, "a", lock.Shared())
		if err != nil {
			return err
		}
		return held.Release(ctx)
	})
	within(t, "Once", func(ctx context.Context) error {
		_, err := n.Effects().Once(ctx, "e", func(context.Context, int64) ([]byte, error) { return nil, nil })
		return err
	})
	within(t, "a named election", func(ctx context.Context) error {
		e, err := n.Elections().Stand("named")
		if err != nil {
			return err
		}
		return errors.Join(e.Lead(ctx, func(context.Context, leaderelection.Term) error { return nil }), e.Close(ctx))
	})
	within(t, "Transfer", func(ctx context.Context) error { return n.Transfer(ctx, second.Address()) })
	c.WaitLeaderIs(second.Address())
	c.WaitQueue(second.Address(), first.Address())
	c.RevokeLease(second)
	c.WaitLeaderIs(first.Address())
	c.WaitQueue(first.Address(), second.Address())
	within(t, "Drain", func(ctx context.Context) error {
		_, _ = second.Cluster().Drain(ctx, first.Address()) // it may be refused, but it returns
		return nil
	})
	within(t, "Stop", n.Stop)
	c.Eventually(second.IsLeader, "the other leads")
	within(t, "Stop", second.Cluster().Stop)
	require.Equal(t, cluster.StateStopped, n.Status().State)
	release()
}
