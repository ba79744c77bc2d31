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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/testkit/probepb"
)

// site is a host under test, and what its objects have in common.
type site struct {
	t      *testing.T
	shards *held
	host   *Host
	world  *probepb.World
}

func newSite(t *testing.T, alter func(*Config), options ...objects.Option) *site {
	s := &site{t: t, shards: newHeld(16, true), world: &probepb.World{}}
	var r registrar
	s.world.Register(&r, "here", options...)
	cfg := Config{Shards: s.shards, At: func(key string) grpc.ClientConnInterface { return at{s, key} }}
	if alter != nil {
		alter(&cfg)
	}
	s.host = New(cfg, NewServices(r.all))
	t.Cleanup(s.host.Close)
	return s
}

// at is the connection to an object of the site.
type at struct {
	*site
	key string
}

func (a at) Invoke(ctx context.Context, method string, request, response any, _ ...grpc.CallOption) error {
	l := Local{Method: a.host.services.Method(method), Key: a.key, Shard: cshard.Of(a.key, a.shards.Count()),
		Request: request, Response: response}
	l.Metadata, _ = metadata.FromOutgoingContext(ctx)
	l.Deadline, _ = ctx.Deadline()
	return a.host.Invoke(ctx, &l)
}

func (a at) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("not here")
}

func (s *site) client(key string) probepb.ProbeClient { return probepb.NewProbeClient(at{s, key}) }

func (s *site) do(ctx context.Context, key, what string) error {
	_, err := s.client(key).Do(ctx, &probepb.DoRequest{What: what, Key: key})
	return err
}

// block arranges an action that says when it has begun, and ends when it may.
func (s *site) block(what string) (begun chan string, end chan struct{}) {
	begun, end = make(chan string, 1000), make(chan struct{})
	s.world.Arrange(what, func(_ context.Context, p *probepb.Probe, req *probepb.DoRequest) (*probepb.DoResponse, error) {
		begun <- req.GetKey()
		<-end
		return &probepb.DoResponse{}, nil
	})
	return begun, end
}

func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

// eventually waits for what is observed.
func (s *site) eventually(cond func() bool) {
	s.t.Helper()
	require.Eventually(s.t, cond, 10*time.Second, time.Millisecond)
}

func TestOneAtATimeInTheOrderOfArrival(t *testing.T) {
	s := newSite(t, nil)
	begun, end := s.block("wait")
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, s.do(s.ctx(), "a", "wait")) })
	<-begun
	var mu sync.Mutex
	var order []int
	s.world.Arrange("note", func(_ context.Context, _ *probepb.Probe, req *probepb.DoRequest) (*probepb.DoResponse,
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
	require.Zero(t, s.host.Running())
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
	require.Equal(t, 6, s.host.Running())
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
	// back calls the object that is named, by Do or by Again.
	s.world.Arrange("call b", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		return probepb.NewProbeClient(p.Object.At("b")).Do(ctx, &probepb.DoRequest{What: "call a"})
	})
	s.world.Arrange("call a", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		// Also where the method makes a context of its own.
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		reply, err := probepb.NewProbeClient(p.Object.At("a")).Do(ctx, &probepb.DoRequest{What: "say"})
		if p.Object.Key() == "b" {
			require.Equal(t, objects.ReasonCycle, objects.ReasonOf(err))
		}
		return reply, err
	})
	s.world.Arrange("call b to call a again", func(ctx context.Context, p *probepb.Probe,
		_ *probepb.DoRequest) (*probepb.DoResponse, error) {
		return probepb.NewProbeClient(p.Object.At("b")).Do(ctx, &probepb.DoRequest{What: "call a again"})
	})
	s.world.Arrange("call a again", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (
		*probepb.DoResponse, error) {
		return probepb.NewProbeClient(p.Object.At("a")).Again(ctx, &probepb.DoRequest{What: "say"})
	})
	s.world.Arrange("say", func(_ context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
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
	s.world.Arrange("panic", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		panic("oh")
	})
	s.world.Arrange("leave", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
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
		s.host.dropLater(s.host.shards[cshard.Of("a", 16)].objects[id{s.host.services.byName["goverse.testkit.probe.Probe"],
			"a"}], objects.Requested)
	}
}

func TestFactories(t *testing.T) {
	s := newSite(t, func(c *Config) { c.ActivationTimeout = 50 * time.Millisecond })
	release := make(chan struct{})
	s.world.Make = func(ctx context.Context, o *objects.Object) error {
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
	require.EqualValues(t, 1, s.host.active.Load())
}

func TestCallerDoesNotWaitForWhatIgnoresItsContext(t *testing.T) {
	s := newSite(t, nil)
	begun, end := s.block("wait")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
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
	require.Equal(t, 1, s.host.Running(), "the first one runs still")
	close(end)
	require.NoError(t, s.do(s.ctx(), "a", "wait"))
}

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
	s.eventually(func() bool { return s.host.active.Load() == 1 })
	for _, e := range s.world.Events() {
		require.False(t, e.Key == "busy" && e.Reason != "")
	}
	close(end)
	wg.Wait()
	s.eventually(func() bool { return s.host.active.Load() == 0 })
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
		s.eventually(func() bool { return s.host.active.Load() <= 3 })
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
	for range 10 { // those that wait need not wait for the one that runs
		err := <-results
		require.True(t, Moved(err), "%v", err)
	}
	require.True(t, Moved(s.do(s.ctx(), "a", "wait")))
	require.Equal(t, 1, s.world.Active("a"), "the turn goes on")
	close(end)
	require.NoError(t, <-results)
	<-left
	require.Zero(t, s.world.Active("a"))
	require.Equal(t, objects.Moved, s.world.Events()[1].Reason)
	require.Zero(t, s.host.active.Load())
	s.shards.acquire(n)
	require.NoError(t, s.do(s.ctx(), "a", "wait"))
	require.EqualValues(t, 2, s.world.Events()[2].Epoch)
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
	s.world.Make = func(_ context.Context, o *objects.Object) error {
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
	s.world.Make = func(_ context.Context, o *objects.Object) error {
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
