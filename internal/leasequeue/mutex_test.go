package leasequeue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Notify may ask and abandon anything. It runs without the lock; otherwise this test would not end.
func TestNotifiedWithoutTheLock(t *testing.T) {
	play(t, func(s *testBed) {
		q := s.queues(well)
		var entered atomic.Pointer[Entry]
		var notified atomic.Int64
		ask := func() {
			notified.Add(1)
			x := entered.Load()
			if x == nil {
				return
			}
			_, _ = x.Token(), x.Decided()
			if g, _ := x.Outcome(); g != nil {
				g.Revoke(errors.New("no more"))
				g.Release()
			}
			_ = q.TryEnter(EntrySpec{Name: "another"})
			_ = q.Closed()
		}
		f := q.Follow("it", ask)
		defer f.Stop()
		x := s.enter(q, EntrySpec{Name: "it", Notify: ask})
		entered.Store(x)
		<-x.Decided()
		g, err := x.Outcome()
		require.NoError(s, err)
		ctx := g.Context()
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			ask()
			close(ended)
		})
		defer stop()
		x.Release()
		require.NoError(s, x.AwaitDeletion(s.ctx))
		<-ended
		<-time.After(time.Second)
		require.Greater(s, notified.Load(), int64(2))
	})
}
