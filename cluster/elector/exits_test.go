package elector

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A callback that leaves its goroutine counts as returned: the term goes on and is ended in order, and the
// lease is released only when AsLeader's functions have returned.
func TestFunctionsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped, told int
		c := stand(t, "a", NewMemory(), func(_ *candidate, cfg *Config) {
			cfg.OnStartedLeading = func(context.Context) { runtime.Goexit() }
			cfg.OnStoppedLeading = func() { stopped++; runtime.Goexit() }
			cfg.OnNewLeader = func(string) { told++; runtime.Goexit() }
		})
		pass(30 * time.Second)
		require.True(t, c.IsLeader(), "the term goes on")
		release, done := make(chan struct{}), make(chan error)
		go func() {
			done <- c.AsLeader(t.Context(), func(context.Context, int64) error { <-release; return nil })
		}()
		synctest.Wait()
		c.stop()
		synctest.Wait()
		require.False(t, c.IsLeader())
		require.Zero(t, stopped)
		lease, err := c.link.GetLease(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", lease.HolderIdentity, "it is waited for")
		close(release)
		require.NoError(t, <-done)
		require.NoError(t, <-c.done)
		require.Equal(t, 1, stopped)
		require.Equal(t, 2, told, "itself, and nobody")
	})
}

// A store that panics or leaves its goroutine has failed, and is asked again.
func TestAStoreThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stand(t, "a", NewMemory())
		for _, leave := range []func(){runtime.Goexit, func() { panic("at the disco") }} {
			left := false
			c.rule(doUpdate, func(ctx context.Context, ask func(context.Context) (Lease, error)) (Lease, error) {
				left = true
				leave()
				return ask(ctx)
			})
			pass(time.Minute)
			require.True(t, c.IsLeader())
			require.True(t, left)
		}
	})
}
