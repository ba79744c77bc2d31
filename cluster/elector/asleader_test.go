package elector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/leaderelection"
)

// Run waits for AsLeader's functions at its end. They are not interrupted before the lease's deadline, and no
// other candidate leads in the meantime.
func TestAsLeaderOutlastsRun(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		b := stand(t, "b", store)
		pass(time.Second)
		none := func(context.Context, int64) error { t.Error("it does not lead"); return nil }
		require.Equal(t, leaderelection.ErrNotLeader, b.AsLeader(t.Context(), none))
		run := func() (goOn chan struct{}, ended chan error) {
			goOn, ended = make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- a.AsLeader(t.Context(), func(ctx context.Context, token int64) error {
					require.Equal(t, token, TokenFrom(ctx))
					select {
					case <-goOn:
						return ctx.Err()
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
			}()
			synctest.Wait()
			return goOn, ended
		}
		goOn, ended := run()
		_, late := run()
		a.stop()
		pass(5 * time.Second)
		require.False(t, a.IsLeader(), "the flag is lowered first")
		require.Equal(t, leaderelection.ErrNotLeader, a.AsLeader(t.Context(), none))
		require.False(t, b.IsLeader(), "its work goes on")
		close(goOn)
		require.NoError(t, <-ended)
		require.NotContains(t, a.happened(), "stopped")
		began := time.Now()
		require.Equal(t, ErrExpired, <-late, "at the deadline")
		require.Less(t, time.Since(began), 10*time.Second)
		require.False(t, b.IsLeader())
		require.NoError(t, <-a.done)
		require.Contains(t, a.happened(), "stopped")
		pass(5 * time.Second)
		require.True(t, b.IsLeader())
	})
}

func TestAsLeaderEndsWhenTheLeaseIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			ended <- a.AsLeader(t.Context(), func(ctx context.Context, _ int64) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		lease, err := store.GetLease(t.Context())
		require.NoError(t, err)
		lease.HolderIdentity, lease.HolderInstance = "z", "z"
		_, err = store.UpdateLease(t.Context(), lease)
		require.NoError(t, err)
		require.Equal(t, ErrTaken, <-ended)
	})
}
