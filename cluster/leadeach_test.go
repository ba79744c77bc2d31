package cluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// leads is the part of a cluster or a candidacy that this test is about.
type leads interface {
	LeadEach(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error
	WaitForLeader(ctx context.Context) (leaderelection.Leader, error)
	Resign(ctx context.Context) error
}

// A function that returns early is called once a term, not in a loop: plain Lead in a loop called it half a million
// times a second. A transaction that finds the term over is no error.
func TestLeadEachCallsOnceATerm(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	n := clustertest.New(t, 1).Node(0).Cluster()
	candidate, err := n.Elections().Stand("e")
	require.NoError(t, err)
	for name, l := range map[string]leads{"cluster": n, "candidate": candidate} {
		var calls atomic.Int64
		leading, stop := context.WithCancelCause(ctx)
		served := make(chan leaderelection.Term)
		ended := make(chan error, 1)
		var over atomic.Pointer[leaderelection.Term]
		go func() {
			ended <- l.LeadEach(leading, func(ctx context.Context, term leaderelection.Term) error {
				calls.Add(1)
				over := over.Load()
				select {
				case served <- term:
				case <-ctx.Done():
				}
				if over != nil {
					_, err := (*over).Txn(ctx).Then(clientv3.OpPut("/never", "x")).Commit()
					return err // the term before is over
				}
				return nil
			})
		}()
		const terms = 4
		for i := range terms {
			term := <-served
			if i == 1 {
				over.Store(&term) // the next call begins after Resign
			}
			if i < terms-1 {
				require.NoError(t, l.Resign(ctx), name)
			}
		}
		stopped := errors.New("stopped")
		stop(stopped)
		require.ErrorIs(t, <-ended, stopped, name)
		require.EqualValues(t, terms, calls.Load(), name)
		broken := errors.New("broken")
		require.ErrorIs(t, l.LeadEach(ctx, func(context.Context, leaderelection.Term) error { return broken }), broken, name)
	}
}
