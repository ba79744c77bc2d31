package consensusmanager

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding/ownership"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// At most MaxAcquiring calls of OnAcquire run at a time. A shard that is lost before its turn causes no call of
// OnAcquire or OnRelease.
func TestMaxAcquiring(t *testing.T) {
	t.Parallel()
	begun, goOn, released := make(chan int, 4), make(chan struct{}), make(chan int, 4)
	h, s := part(t, Settings{DrainTimeout: time.Hour, MaxAcquiring: 2,
		OnAcquire: func(_ context.Context, shard int, _ int64) {
			begun <- shard
			<-goOn
		},
		OnRelease: func(_ context.Context, shard int) { released <- shard }})
	for shard := range 4 {
		h.acquireShard(ownership.Grant{Shard: shard, Epoch: 5}, s.Period())
	}
	first := map[int]bool{<-begun: true, <-begun: true}
	var waiting []int
	for shard := range 4 {
		if !first[shard] {
			waiting = append(waiting, shard)
		}
	}
	h.releaseShard(waiting[0])
	require.Eventually(t, func() bool { return h.held.Load() == 3 }, patience, time.Millisecond)
	require.Empty(t, begun)
	require.Empty(t, released)

	close(goOn)
	require.Equal(t, waiting[1], <-begun)
	require.Eventually(t, func() bool { return h.phases[phaseServing].Load() == 3 }, patience, time.Millisecond)
	require.Empty(t, begun)
	h.acquireShard(ownership.Grant{Shard: waiting[0], Epoch: 6}, s.Period())
	require.Equal(t, waiting[0], <-begun, "it comes again")
	require.Eventually(t, func() bool { return h.phases[phaseServing].Load() == 4 }, patience, time.Millisecond)
	for shard := range 4 {
		h.releaseShard(shard)
	}
	require.NoError(t, h.awaitIdle(etcdtest.Context(t)))
	require.Len(t, released, 4)
	h.work.Wait()
}
