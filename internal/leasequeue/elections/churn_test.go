package elections_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
)

const churnFor = 2 * time.Second

// An election is observed and closed again and again: the bucket still knows its queue, and notifies the
// election before Observe has returned.
func TestObservedOverAndOver(t *testing.T) {
	s := newTestBed(t)
	s.join(s.a, "it")
	for began := time.Now(); time.Since(began) < churnFor; {
		e, err := s.b.Observe("it")
		require.NoError(t, err)
		e.Unobserve()
	}
}

// When Withdraw has returned, the entry is released, whatever works in the term at that time.
func TestWithdrawnIsGone(t *testing.T) {
	s := newTestBed(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	e, err := s.a.Stand("it")
	require.NoError(t, err)
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = e.AsLeader(ctx, func(context.Context, leaderelection.Term) error { return nil })
		}
	})
	for began := time.Now(); time.Since(began) < churnFor; {
		_, err := s.a.Stand("it")
		require.NoError(t, err)
		_, err = e.WaitForLeader(s.ctx)
		require.NoError(t, err)
		require.NoError(t, e.Withdraw(s.ctx))
		found, err := s.client.Get(s.ctx, s.keys.QueuePrefix("it"), clientv3.WithPrefix())
		require.NoError(t, err)
		require.Empty(t, found.Kvs)
	}
}

// Withdraw waits for the entry that existed, not for that of a candidacy that starts meanwhile.
func TestWithdrawBesideStand(t *testing.T) {
	s := newTestBed(t)
	e := s.join(s.a, "it")
	for began := time.Now(); time.Since(began) < churnFor; {
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
			defer cancel()
			require.NoError(t, e.Withdraw(ctx))
		})
		_, err := s.a.Stand("it")
		require.NoError(t, err)
		wg.Wait()
	}
}
