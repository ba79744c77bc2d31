package link

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/clustertest/fault"
)

// farAway starts a server with windows of that size at that one-way distance, and returns its address.
func farAway(t testing.TB, window int32, distance time.Duration, opts ...grpc.ServerOption) string {
	s := local(t, echo, append(opts, grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(16<<20))...)
	relay, err := fault.NewRelay(s.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	relay.Delay(fault.Both, distance)
	return relay.Address()
}

// BenchmarkFarLink measures 64 callers and a distant node, by the window of the node: 256 KiB is the actual
// window, and 4 MiB would suffice for all callers. The result is in calls per round trip; 64 would be the most.
func BenchmarkFarLink(b *testing.B) {
	for _, distance := range []time.Duration{20 * time.Millisecond, 40 * time.Millisecond} {
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
			for _, window := range []int32{256 << 10, 4 << 20} {
				b.Run(fmt.Sprintf("%v/%dKiB/window=%dKiB", distance, size>>10, window>>10), func(b *testing.B) {
					address, p := farAway(b, window, distance), NewPool(Config{})
					payload := make([]byte, size)
					measure(b, 64, func(ctx context.Context) error {
						_, err := p.Call(ctx, address, to(payload))
						return err
					})
					b.ReportMetric(float64(b.N)*float64(2*distance)/float64(b.Elapsed()), "calls/rtt")
					p.Close()
				})
			}
		}
	}
}

// nodeWindow is the window of package node.
const nodeWindow = 256 << 10

// callTogether makes calls of that size with that many callers, each one after the other, and returns the
// median time of a call.
func callTogether(t *testing.T, p *Pool, address string, callers, each, size int) time.Duration {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for range callers {
		wg.Go(func() {
			for range each {
				began := time.Now()
				_, err := p.Call(patient(t), address, to(make([]byte, size)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took[len(took)/2]
}

// linksOf returns the number of open links of a pool to an address.
func linksOf(p *Pool, address string) (n int) {
	for i := range p.peers[address].links {
		if l := p.peers[address].links[i].Load(); l != nil && l.ready.Load() && !l.ended.Load() {
			n++
		}
	}
	return n
}

// A distant node receives little of one link per round trip, so there are more links. BenchmarkFarLink shows
// how much faster that is; with one link the median is 340 ms.
func TestManyCallsToAFarNode(t *testing.T) {
	t.Parallel()
	const distance = 40 * time.Millisecond
	address, p := farAway(t, nodeWindow, distance), pool(t, Config{})
	callTogether(t, p, address, 1, 3, 1000)
	require.Equal(t, 1, linksOf(p, address), "few calls need no more")
	median := callTogether(t, p, address, 64, 5, 64<<10)
	t.Logf("median %v, by %d links", median, linksOf(p, address))
	require.Equal(t, maxLanes, linksOf(p, address))
	p.Keep(func(string) bool { return false })
	require.Empty(t, p.peers, "all of them are closed")
}

// A node may allow a connection fewer streams than there would be links.
func TestManyCallsToAFarNodeThatAllowsFewStreams(t *testing.T) {
	t.Parallel()
	address := farAway(t, nodeWindow, 10*time.Millisecond, grpc.MaxConcurrentStreams(3))
	p := pool(t, Config{})
	callTogether(t, p, address, 64, 5, 64<<10)
	require.Equal(t, 3, linksOf(p, address))
}

// A node does not count as distant only because the first link to it was opened slowly.
func TestFar(t *testing.T) {
	p := &peer{allOpen: make(chan struct{})}
	require.False(t, p.isFar())
	p.recordOpened(0, 50*time.Millisecond)
	require.True(t, p.isFar())
	p.recordOpened(1, time.Millisecond)
	p.recordOpened(0, 50*time.Millisecond)
	require.False(t, p.isFar())
}

// A link that broke and was opened again is not one more link: the calls of a busy pool wait for all links.
func TestLinksAreCountedOnce(t *testing.T) {
	p := &peer{allOpen: make(chan struct{})}
	for range 2 * maxLanes {
		p.recordOpened(0, 50*time.Millisecond)
	}
	p.openMoreOnce.Do(func() { p.widenUntil = time.Now().Add(patience) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	p.openMoreLinks(ctx)
	require.Error(t, ctx.Err(), "it returns before all links are open")
	for lane := 1; lane < maxLanes; lane++ {
		p.recordOpened(lane, 50*time.Millisecond)
	}
	p.openMoreLinks(t.Context())
	p.recordOpened(1, 50*time.Millisecond)
	select {
	case <-p.allOpen:
	default:
		t.Fatal("all are open")
	}
}
