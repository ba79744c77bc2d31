package consensusmanager

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// A hook that panics or ends its goroutine has failed. OnAcquire is then called again, and the shard is not
// served before; OnRelease is not called again. Each failure is logged.
func TestHooksThatDoNotReturn(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){
		"goexit": runtime.Goexit,
		"panic":  func() { panic(errors.New("at the disco")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logtest.Buffer
			var acquires, releases atomic.Int64
			h, s := partOf(t, Config{Process: etcd.Process{Logger: log.Logger()}, Settings: Settings{
				DrainTimeout: time.Hour, MaxAcquiring: 1,
				OnAcquire: func(context.Context, int, int64) {
					if acquires.Add(1) <= 2 {
						leave()
					}
				},
				OnRelease: func(context.Context, int) {
					releases.Add(1)
					leave()
				}}})
			for shard := range 2 {
				h.acquireShard(ownership.Grant{Shard: shard, Epoch: 5}, s.Period())
			}
			log.Await(t, "OnAcquire failed: the shard is not served before it succeeds, calling it again")
			require.Eventually(t, func() bool { return h.phases[phaseServing].Load() == 2 }, patience, time.Millisecond)
			require.EqualValues(t, 4, acquires.Load(), "two that failed, and each shard's own")
			for shard := range 2 {
				h.releaseShard(shard)
			}
			require.NoError(t, h.awaitIdle(etcdtest.Context(t)))
			require.EqualValues(t, 2, releases.Load())
			h.work.Wait()
			require.Equal(t, 2, log.Count("OnRelease failed, releasing the shard all the same"))
			if name == "panic" {
				require.Contains(t, log.String(), "hooks_test.go", "where it panicked")
			} else {
				require.Contains(t, log.String(), "runtime.Goexit")
			}
		})
	}
}

// OnAcquire is not called again for a shard that is lost while it fails.
func TestAShardIsLostWhileItsHookFails(t *testing.T) {
	t.Parallel()
	var acquires, releases atomic.Int64
	h, s := part(t, Settings{DrainTimeout: time.Hour, MaxAcquiring: 1,
		OnAcquire: func(context.Context, int, int64) { acquires.Add(1); runtime.Goexit() },
		OnRelease: func(context.Context, int) { releases.Add(1) }})
	h.acquireShard(ownership.Grant{Shard: 1, Epoch: 5}, s.Period())
	require.Eventually(t, func() bool { return acquires.Load() > 1 }, patience, time.Millisecond)
	h.releaseShard(1)
	require.NoError(t, h.awaitIdle(etcdtest.Context(t)))
	require.EqualValues(t, 1, releases.Load(), "what it has done is undone")
	h.work.Wait()
}
