package host

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/session"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/probepb"
)

func TestIdleObjectsAreDeactivated(t *testing.T) {
	s := newSite(t, func(c *Config) { c.IdleAfter = 20 * time.Millisecond })
	begun, end := s.block("wait")
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, s.do(s.ctx(), "busy", "wait")) })
	<-begun
	for i := range 100 {
		_, err := s.client(fmt.Sprint(i)).Echo(s.ctx(), &probepb.Blob{})
		require.NoError(t, err)
	}
	s.eventually(func() bool { return s.host.evictor.activations.Load() == 1 })
	for _, e := range s.world.Events() {
		require.False(t, e.Key == "busy" && e.Reason != "")
	}
	close(end)
	wg.Wait()
	s.eventually(func() bool { return s.host.evictor.activations.Load() == 0 })
	for n := range s.host.shards {
		sh := &s.host.shards[n]
		sh.mu.Lock()
		require.Nil(t, sh.objects)
		require.Zero(t, sh.live)
		sh.mu.Unlock()
	}
}

func TestLeastRecentlyCalledIsEvicted(t *testing.T) {
	s := newSite(t, func(c *Config) { c.MaxActive, c.IdleAfter = 3, 8*time.Millisecond*1000 })
	for i := range 10 {
		_, err := s.client(fmt.Sprint(i)).Echo(s.ctx(), &probepb.Blob{})
		require.NoError(t, err)
		s.eventually(func() bool { return s.host.evictor.activations.Load() <= 3 })
	}
	var evicted []string
	for _, e := range s.world.Events() {
		if e.Reason != "" {
			require.Equal(t, objects.Evicted, e.Reason)
			evicted = append(evicted, e.Key)
		}
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6"}, evicted)
	// All are in use.
	begun, end := s.block("wait")
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { require.NoError(t, s.do(s.ctx(), fmt.Sprint(i), "wait")) })
	}
	for range 3 {
		<-begun
	}
	_, err := s.client("more").Echo(s.ctx(), &probepb.Blob{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
	close(end)
	wg.Wait()
	_, err = s.client("more").Echo(s.ctx(), &probepb.Blob{})
	require.NoError(t, err)
}

func TestShardLeaves(t *testing.T) {
	s := newSite(t, nil)
	n := cshard.Of("a", 16)
	begun, end := s.block("wait")
	results := make(chan error, 20)
	go func() { results <- s.do(s.ctx(), "a", "wait") }()
	<-begun
	for i := range 10 {
		go func() { results <- s.do(s.ctx(), "a", "wait") }()
		s.eventually(func() bool { return s.host.waiting.Load() == int64(i+1) })
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.shards.release(context.Background(), s.host, n, cshard.ErrNotOwner)
	}()
	for range 10 { // waiting calls need not wait for the running one
		err := <-results
		require.True(t, IsMoved(err), "%v", err)
	}
	require.True(t, IsMoved(s.do(s.ctx(), "a", "wait")))
	require.Equal(t, 1, s.world.Active("a"), "the turn goes on")
	close(end)
	require.NoError(t, <-results)
	<-left
	require.Zero(t, s.world.Active("a"))
	require.Equal(t, objects.Moved, s.world.Events()[1].Reason)
	require.Zero(t, s.host.evictor.activations.Load())
	s.shards.acquire(n)
	require.NoError(t, s.do(s.ctx(), "a", "wait"))
	require.EqualValues(t, 2, s.world.Events()[2].Epoch)
}

// A shard that leaves because the session is lost gives that reason, even if the map announced a move before.
func TestShardIsLost(t *testing.T) {
	s := newSite(t, nil)
	_, end := s.block("wait")
	close(end)
	require.NoError(t, s.do(s.ctx(), "a", "wait"))
	s.shards.release(context.Background(), s.host, cshard.Of("a", 16), &session.LostError{Reason: session.ReasonPaused})
	require.Equal(t, objects.Lost, s.world.Events()[1].Reason)
}

func TestShardOnItsWayHere(t *testing.T) {
	s := newSite(t, nil)
	s.shards = newHeld(16, false)
	s.host.cfg.Shards = s.shards
	_, end := s.block("wait")
	close(end)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { require.NoError(t, s.do(s.ctx(), "a", "wait")) })
	}
	s.eventually(func() bool { return s.host.waiting.Load() == 20 })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := s.do(ctx, "a", "wait")
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.True(t, objects.NotStarted(err))
	s.shards.acquire(cshard.Of("a", 16))
	wg.Wait()
}

func TestTimers(t *testing.T) {
	s := newSite(t, nil)
	ticks := make(chan int64, 100)
	s.world.OnActivate = func(_ context.Context, o *objects.Object) error {
		running := false // guarded by the turns
		stop := o.Every(time.Millisecond, func(ctx context.Context) {
			require.False(t, running)
			running = true
			_, err := probepb.NewProbeClient(o.At(o.Key())).Echo(ctx, &probepb.Blob{})
			require.Equal(t, objects.ReasonCycle, objects.ReasonOf(err), "a tick is a turn")
			running = false
			select {
			case ticks <- 1:
			default:
			}
		})
		o.After(20*time.Millisecond, func(context.Context) {
			stop()
			ticks <- 2
		})
		return nil
	}
	_, err := s.client("a").Echo(s.ctx(), &probepb.Blob{})
	require.NoError(t, err)
	seen := 0
	for tick := range ticks {
		if tick == 2 {
			break
		}
		seen++
	}
	require.Positive(t, seen)
	s.shards.release(context.Background(), s.host, cshard.Of("a", 16), cshard.ErrNotOwner)
	require.Zero(t, s.world.Active("a"))
}

func TestContextOfAnActivation(t *testing.T) {
	s := newSite(t, nil)
	ended := make(chan struct{})
	s.world.OnActivate = func(_ context.Context, o *objects.Object) error {
		go func() {
			<-o.Context().Done()
			close(ended)
		}()
		return nil
	}
	_, err := s.client("a").Echo(s.ctx(), &probepb.Blob{})
	require.NoError(t, err)
	s.shards.release(context.Background(), s.host, cshard.Of("a", 16), cshard.ErrNotOwner)
	<-ended
}
