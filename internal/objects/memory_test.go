package objects_test

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/test/race"
)

// hoardFor is the duration of each load of TestMemoryThatOneConnectionTakes.
var hoardFor = flag.Duration("objects.hoard", time.Second, "how long each load on the memory of a node lasts; 60s is "+
	"the full run, which judges what others wait for, too")

const (
	// mostHoarded bounds the growth of two nodes and etcd, in one process, under the load of one connection. The
	// collector lets a heap grow to twice its size, and memory that it frees is given back later.
	mostHoarded = 512 << 20
	// mostKept bounds the growth in use after that connection has given up: the memory kept for reuse.
	mostKept = 32 << 20
	// inHand bounds the budget that links between the nodes may hold for the next calls.
	inHand = 1 << 20
	// steady is the duration of a load after which its beginning, which costs processor time, is less than a
	// hundredth of the measurement.
	steady = 30 * time.Second
	// noise is the p99 of other callers that is acceptable in any case. There are two processors, and garbage
	// collection takes one for some milliseconds.
	noise = 4 * time.Millisecond
)

// One connection makes a node hold no more than the budget allows, and the node's memory falls back when it
// gives up. Other callers do not notice. The test is not parallel, because it measures latencies.
func TestMemoryThatOneConnectionTakes(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes several times the memory")
	}
	h := startHoarded(t)
	h.others(t, 200*time.Millisecond) // opens connections and activates objects
	for name, load := range hoards {
		t.Run(name, func(t *testing.T) { hoardMemory(t, h, load) })
	}
}

func hoardMemory(t *testing.T, h *hoarded, load load) {
	idle := h.processor(t)
	alone := h.others(t, max(*hoardFor/6, 200*time.Millisecond))
	idle = h.processor(t) - idle
	before, resident := h.holds(t, true), h.resident(t)
	ctx, cancel := context.WithTimeout(t.Context(), *hoardFor+time.Minute)
	defer cancel()
	// Adaptive windows would grow to 16 MiB for each stream. gRPC would then receive bytes that the client does
	// not read.
	one := &hoarder{hoarded: h, conn: h.dial(t, grpc.WithStaticStreamWindowSize(64<<10),
		grpc.WithStaticConnWindowSize(16<<20))}
	var wg sync.WaitGroup
	busy := h.processor(t)
	for i := range load.times {
		wg.Go(func() { one.ends(ctx, load.open(ctx, one, i)) })
	}
	most, now := resident, before
	look := func() { most, now = max(most, h.resident(t)), h.holds(t, false) }
	stop := observe(look)
	beside := h.others(t, *hoardFor)
	stop()
	busy = h.processor(t) - busy
	share := now.Limit[0] / 2
	enough := func() bool {
		look()
		return max(now.Waiting[0], now.Waiting[1]) > share/2 && now.Refused > before.Refused
	}
	if load.half {
		require.Eventually(t, enough, time.Minute, 10*time.Millisecond, "the load is one: %+v", now)
	}
	cancel()
	wg.Wait()
	require.Eventually(t, func() bool {
		now := h.holds(t, false).Waiting
		return max(now[0], now[1]) < inHand
	}, 20*time.Second, 10*time.Millisecond, "nothing waits when nobody does")
	require.Eventually(t, func() bool {
		return int64(h.holds(t, true).Heap)-int64(before.Heap) < mostKept
	}, time.Minute, 100*time.Millisecond, "the memory falls back")
	t.Logf("%d MB before, %d MB more at most, %d MB more afterwards", resident>>20, (most-resident)>>20,
		(h.resident(t)-resident)>>20)
	t.Logf("%d and %d MB wait of %d MB that may, %d calls do; %d were refused for it, %d of %d were told, and %d failed",
		now.Waiting[0]>>20, now.Waiting[1]>>20, share>>20, now.Calls, now.Refused-before.Refused, one.refused.Load(),
		load.times, one.failed.Load())
	t.Logf("others: alone %v, and %v of processor time; beside it %v, and %v", alone, idle, beside, busy)
	require.Less(t, most-resident, int64(mostHoarded))
	require.Zero(t, one.failed.Load())
	if *hoardFor >= steady {
		require.LessOrEqual(t, beside.p99, max(2*alone.p99, noise))
	}
}
