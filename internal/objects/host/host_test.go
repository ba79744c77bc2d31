package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/probepb"
)

func TestOneAtATimeInTheOrderOfArrival(t *testing.T) {
	s := newSite(t, nil)
	begun, end := s.block("wait")
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, s.do(s.ctx(), "a", "wait")) })
	<-begun
	var mu sync.Mutex
	var order []int
	s.world.SetAction("note", func(_ context.Context, _ *probepb.Probe, req *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		mu.Lock()
		defer mu.Unlock()
		var n int
		_, _ = fmt.Sscan(req.GetKey(), &n)
		order = append(order, n)
		return &probepb.DoResponse{}, nil
	})
	for i := range 100 {
		wg.Go(func() {
			_, err := s.client("a").Do(s.ctx(), &probepb.DoRequest{What: "note", Key: fmt.Sprint(i)})
			require.NoError(t, err)
		})
		s.eventually(func() bool { return s.host.waiting.Load() == int64(i+1) })
	}
	require.NoError(t, s.do(s.ctx(), "b", "note"), "another object")
	close(end)
	wg.Wait()
	require.Len(t, order, 101)
	for i, n := range order[1:] {
		require.Equal(t, i, n)
	}
	require.Zero(t, s.host.waiting.Load())
	require.Zero(t, s.host.RunningTurns())
}

func TestConcurrentMethodsRunBeside(t *testing.T) {
	s := newSite(t, nil, objects.Concurrent("Beside"))
	begun, end := s.block("wait")
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, s.do(s.ctx(), "a", "wait")) })
	<-begun
	wg.Go(func() { require.NoError(t, s.do(s.ctx(), "a", "wait")) })
	s.eventually(func() bool { return s.host.waiting.Load() == 1 })
	for range 5 {
		wg.Go(func() {
			_, err := s.client("a").Beside(s.ctx(), &probepb.DoRequest{What: "wait"})
			require.NoError(t, err)
		})
	}
	for range 5 {
		<-begun
	}
	require.Equal(t, 6, s.host.RunningTurns())
	close(end)
	wg.Wait()
}

func TestQueuesAreBounded(t *testing.T) {
	s := newSite(t, func(c *Config) { c.MaxWaiting = 5 }, objects.MaxQueue(3))
	begun, end := s.block("wait")
	var wg sync.WaitGroup
	call := func(key string) { wg.Go(func() { require.NoError(t, s.do(s.ctx(), key, "wait")) }) }
	call("a")
	call("b")
	<-begun
	<-begun
	for i := range 3 {
		call("a")
		s.eventually(func() bool { return s.host.waiting.Load() == int64(i+1) })
	}
	err := s.do(s.ctx(), "a", "wait")
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.True(t, objects.NotStarted(err))
	call("b")
	call("b")
	s.eventually(func() bool { return s.host.waiting.Load() == 5 })
	require.Equal(t, codes.ResourceExhausted, status.Code(s.do(s.ctx(), "b", "wait")), "the node's queues are full")
	_, err = s.client("a").Echo(s.ctx(), &probepb.Blob{})
	require.Error(t, err)
	_, err = s.client("c").Echo(s.ctx(), &probepb.Blob{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "it would wait for its activation")
	refused := map[string]map[codes.Code]int64{}
	for _, m := range s.host.services.Stats()[0].Methods {
		refused[m.Name] = m.Refused
	}
	require.Equal(t, map[codes.Code]int64{codes.ResourceExhausted: 2}, refused["Do"])
	require.Equal(t, map[codes.Code]int64{codes.ResourceExhausted: 2}, refused["Echo"])
	require.Empty(t, refused["Add"])
	close(end)
	wg.Wait()
	_, err = s.client("c").Echo(s.ctx(), &probepb.Blob{})
	require.NoError(t, err)
}

func TestCirclesOfCallsAreRecognised(t *testing.T) {
	s := newSite(t, nil, objects.Reentrant("Again"))
	// back calls the object with that name, by Do or by Again.
	s.world.SetAction("call b", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		return probepb.NewProbeClient(p.Object.At("b")).Do(ctx, &probepb.DoRequest{What: "call a"})
	})
	s.world.SetAction("call a", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		// Also if the method derives a context of its own.
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		reply, err := probepb.NewProbeClient(p.Object.At("a")).Do(ctx, &probepb.DoRequest{What: "say"})
		if p.Object.Key() == "b" {
			require.Equal(t, objects.ReasonCycle, objects.ReasonOf(err))
		}
		return reply, err
	})
	s.world.SetAction("call b to call a again", func(ctx context.Context, p *probepb.Probe,
		_ *probepb.DoRequest) (*probepb.DoResponse, error) {
		return probepb.NewProbeClient(p.Object.At("b")).Do(ctx, &probepb.DoRequest{What: "call a again"})
	})
	s.world.SetAction("call a again", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (
		*probepb.DoResponse, error) {
		return probepb.NewProbeClient(p.Object.At("a")).Again(ctx, &probepb.DoRequest{What: "say"})
	})
	s.world.SetAction("say", func(_ context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
		return &probepb.DoResponse{Said: p.Object.Key()}, nil
	})
	for _, ctx := range []context.Context{context.Background(), s.ctx()} {
		err := s.do(ctx, "a", "call b")
		require.Equal(t, codes.FailedPrecondition, status.Code(err), err)
		require.Empty(t, objects.ReasonOf(err), "the method of a has run")
		require.NoError(t, s.do(ctx, "c", "call a"))
		reply, err := s.client("a").Do(ctx, &probepb.DoRequest{What: "call b to call a again"})
		require.NoError(t, err)
		require.Equal(t, "a", reply.GetSaid())
	}
}

func TestPanicDropsTheObject(t *testing.T) {
	s := newSite(t, nil)
	s.world.SetAction("panic", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		panic("oh")
	})
	s.world.SetAction("leave", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		runtime.Goexit()
		return nil, nil
	})
	for _, what := range []string{"panic", "leave"} {
		_, err := s.client("a").Add(s.ctx(), &probepb.AddRequest{Amount: 5})
		require.NoError(t, err)
		err = s.do(s.ctx(), "a", what)
		require.Equal(t, codes.Internal, status.Code(err), what)
		require.False(t, objects.NotStarted(err))
		reply, err := s.client("a").Add(s.ctx(), &probepb.AddRequest{Amount: 1})
		require.NoError(t, err)
		require.EqualValues(t, 1, reply.GetSum(), "a new activation")
		events := s.world.Events()
		require.Equal(t, objects.Failed, events[len(events)-2].Reason)
		id := objectID{s.host.services.byName["goverse.testkit.probe.Probe"], "a"}
		s.host.shards[cshard.Of("a", 16)].objects[id].dropActivation(objects.Requested)
	}
}

func TestFactories(t *testing.T) {
	s := newSite(t, func(c *Config) { c.ActivationTimeout = 300 * time.Millisecond })
	release := make(chan struct{})
	s.world.OnActivate = func(ctx context.Context, o *objects.Object) error {
		switch o.Key() {
		case "fails":
			return errors.New("no database")
		case "denied":
			return status.Error(codes.PermissionDenied, "not for you")
		case "panics":
			panic("oh")
		case "hangs":
			<-release
		case "ends":
			<-ctx.Done()
			return ctx.Err()
		case "itself":
			_, err := probepb.NewProbeClient(o.At("itself")).Echo(ctx, &probepb.Blob{})
			return err
		}
		return nil
	}
	for key, code := range map[string]codes.Code{"fails": codes.Unavailable, "denied": codes.PermissionDenied,
		"panics": codes.Internal, "hangs": codes.Unavailable, "ends": codes.Unavailable,
		"itself": codes.FailedPrecondition} {
		_, err := s.client(key).Echo(s.ctx(), &probepb.Blob{})
		require.Equal(t, code, status.Code(err), "%s: %v", key, err)
		require.True(t, objects.NotStarted(err), "%s: %v", key, err)
	}
	_, err := s.client("hangs").Echo(s.ctx(), &probepb.Blob{})
	require.Equal(t, codes.Unavailable, status.Code(err), "it hangs still")
	close(release)
	s.eventually(func() bool {
		_, err := s.client("hangs").Echo(s.ctx(), &probepb.Blob{})
		return err == nil
	})
	// A factory that ends with its time-out returns after its callers have been answered.
	s.eventually(func() bool { return s.host.evictor.activations.Load() == 1 })
}

func TestCallerDoesNotWaitForWhatIgnoresItsContext(t *testing.T) {
	s := newSite(t, nil)
	begun, end := s.block("wait")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond) // the turn has begun by then
	defer cancel()
	require.Equal(t, codes.DeadlineExceeded, status.Code(s.do(ctx, "a", "wait")))
	<-begun
	err := s.do(ctx, "a", "wait")
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	ctx, cancel = context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.do(ctx, "a", "wait")
		require.Equal(t, codes.Canceled, status.Code(err))
		require.True(t, objects.NotStarted(err), "it was waiting for its turn")
	})
	s.eventually(func() bool { return s.host.waiting.Load() == 1 })
	cancel()
	wg.Wait()
	require.Zero(t, s.host.waiting.Load())
	require.Equal(t, 1, s.host.RunningTurns(), "the first one runs still")
	close(end)
	require.NoError(t, s.do(s.ctx(), "a", "wait"))
}

func TestCallsAndObjectsShareNoMessage(t *testing.T) {
	s := newSite(t, nil)
	data := []byte("as it was")
	request := &probepb.Blob{Data: data}
	reply, err := s.client("a").Echo(s.ctx(), request) // which returns its request
	require.NoError(t, err)
	data[0] = 'A'
	require.Equal(t, "as it was", string(reply.GetData()))
	require.NotSame(t, &data[0], &reply.GetData()[0])
}
