package host

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster/objects"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/test/probepb"
)

// reply is an action that does nothing.
func reply(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
	return &probepb.DoResponse{}, nil
}

// drop is an action that drops its object.
func drop(_ context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse, error) {
	p.Object.Deactivate()
	return &probepb.DoResponse{}, nil
}

// keysOf returns n keys of a shard.
func keysOf(shard, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := "key " + strconv.Itoa(i); cshard.Of(key, 16) == shard {
			keys = append(keys, key)
		}
	}
	return keys
}

// A call comes back to an object that is to be dropped. The turn that delays the drop waits for the call.
func TestCallComesBackToADroppedObject(t *testing.T) {
	s := newSite(t, nil, objects.Reentrant("Again"), objects.Concurrent("Beside"))
	s.world.SetAction("reply", reply)
	s.world.SetAction("again", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		p.Object.Deactivate()
		return s.client("a").Again(ctx, &probepb.DoRequest{What: "reply"})
	})
	s.world.SetAction("beside", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		p.Object.Deactivate()
		return s.client("a").Beside(ctx, &probepb.DoRequest{What: "reply"})
	})
	require.NoError(t, s.do(s.ctx(), "a", "again"))
	_, err := s.client("a").Beside(s.ctx(), &probepb.DoRequest{What: "beside"})
	require.NoError(t, err)
	s.eventually(func() bool { return s.world.Active("a") == 0 })
}

// The node's session is suspended while a call comes back to an object that is to be dropped, so the call is queued.
// It begins when the shard is served again, because the turn that delays the drop waits for it.
func TestCallThatComesBackWhileSuspended(t *testing.T) {
	shards := &suspended{over: make(chan struct{})}
	s := newSite(t, func(c *Config) {
		shards.held = c.Shards.(*held)
		c.Shards = shards
	}, objects.Reentrant("Again"))
	begun := make(chan struct{})
	s.world.SetAction("reply", reply)
	s.world.SetAction("again", func(ctx context.Context, p *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		shards.now.Store(true)
		close(begun)
		p.Object.Deactivate()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return s.client("a").Again(ctx, &probepb.DoRequest{What: "reply"})
	})
	ended := make(chan error, 1)
	go func() { ended <- s.do(s.ctx(), "a", "again") }()
	<-begun
	s.eventually(func() bool { return s.host.waiting.Load() == 1 })
	shards.now.Store(false)
	shards.over <- struct{}{}
	require.NoError(t, <-ended)
	s.eventually(func() bool { return s.world.Active("a") == 0 })
}

// suspended is a node's part in the shards, of which the session may be suspended. Nothing enters then.
type suspended struct {
	*held
	now  atomic.Bool
	over chan struct{} // receives a value when it is over
}

func (s *suspended) Enter(n int) (int64, bool) {
	if s.now.Load() {
		return 0, false
	}
	return s.held.Enter(n)
}

func (s *suspended) Reenter(n int) (int64, bool) {
	if s.now.Load() {
		return 0, false
	}
	return s.held.Reenter(n)
}

func (s *suspended) Await(ctx context.Context, _ int, _ int64) (int64, error) {
	select {
	case <-s.over:
		return 0, nil
	case <-ctx.Done():
		return -1, ctx.Err()
	}
}

// An object is dropped right after a stream got its turn, and the method has ended with its context before ServeStream
// waits. The client learns that it may call again.
func TestStreamIsCutBeforeItIsWaitedFor(t *testing.T) {
	shards := &dropping{}
	s := newSite(t, func(c *Config) {
		shards.held = c.Shards.(*held)
		c.Shards = shards
	})
	s.world.OnActivate = func(_ context.Context, o *objects.Object) error {
		drop := o.Deactivate
		shards.drop.Store(&drop)
		return nil
	}
	for range 30 { // select takes one of two events at random
		_, err := s.client("a").Add(s.ctx(), &probepb.AddRequest{})
		require.NoError(t, err)
		c := &Call{Method: s.host.services.Method(probepb.Probe_Download_FullMethodName), Key: "a",
			Shard: cshard.Of("a", 16), outcome: make(chan error, 2)}
		c.outcome <- errCancelled
		require.ErrorIs(t, s.host.ServeStream(c, &quiet{ctx: s.ctx()}), errStreamCut)
	}
}

// dropping is a node's part in the shards that drops an object when a stream has its turn.
type dropping struct {
	*held
	drop atomic.Pointer[func()]
}

func (d *dropping) Staying(n int) context.Context {
	if drop := d.drop.Swap(nil); drop != nil {
		(*drop)()
	}
	return d.held.Staying(n)
}

// A factory calls its own object, which does not exist before the factory has returned, whatever the method
// allows.
func TestFactoryCallsItsOwnObject(t *testing.T) {
	s := newSite(t, nil, objects.Concurrent("Beside"), objects.Reentrant("Again"))
	s.world.OnActivate = func(ctx context.Context, o *objects.Object) (err error) {
		switch client := s.client(o.Key()); o.Key() {
		case "plain":
			_, err = client.Add(ctx, &probepb.AddRequest{})
		case "beside":
			_, err = client.Beside(ctx, &probepb.DoRequest{})
		case "again":
			_, err = client.Again(ctx, &probepb.DoRequest{})
		}
		require.Equal(t, objects.ReasonCycle, objects.ReasonOf(err))
		return err
	}
	for _, key := range []string{"plain", "beside", "again"} {
		_, err := s.client(key).Add(s.ctx(), &probepb.AddRequest{})
		require.Equal(t, objects.ReasonActivation, objects.ReasonOf(err), key)
	}
}

// User code leaves its goroutine, as t.FailNow does.
func TestGoexit(t *testing.T) {
	s := newSite(t, nil)
	first := true
	s.world.OnActivate = func(context.Context, *objects.Object) error {
		if first {
			first = false
			runtime.Goexit()
		}
		return nil
	}
	err := s.do(s.ctx(), "a", "drop")
	require.Equal(t, objects.ReasonActivation, objects.ReasonOf(err))
	require.Zero(t, s.host.evictor.activations.Load())

	s.world.Leave = runtime.Goexit
	s.world.SetAction("drop", drop)
	for range 2 {
		require.NoError(t, s.do(s.ctx(), "a", "drop"))
	}
	for _, key := range keysOf(0, maxLeavers+3) {
		_, err := s.client(key).Add(s.ctx(), &probepb.AddRequest{})
		require.NoError(t, err)
	}
	s.shards.release(s.ctx(), s.host, 0, cshard.ErrNotOwner) // must return
	s.eventually(func() bool { return s.host.evictor.activations.Load() == 0 })
}

// A goroutine of a method that has returned sets a header. No other caller receives it.
func TestHeaderOfACallThatHasEnded(t *testing.T) {
	s := newSite(t, nil)
	kept := make(chan context.Context, 1)
	s.world.SetAction("keep", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		require.NoError(t, grpc.SetHeader(ctx, metadata.Pairs("a", "b")))
		kept <- ctx
		return &probepb.DoResponse{}, nil
	})
	var call Call // reused, as by a router
	do := func(key, what string) {
		call.Reset()
		call.Method, call.Key, call.Shard = s.host.services.Method(probepb.Probe_Do_FullMethodName), key, cshard.Of(key, 16)
		call.Request, call.Response = &probepb.DoRequest{What: what}, &probepb.DoResponse{}
		require.NoError(t, s.host.Invoke(context.Background(), &call))
	}
	do("a", "keep")
	require.Equal(t, []string{"b"}, call.Header.Get("a"))
	old := <-kept
	s.world.SetAction("late", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
		_ = grpc.SetHeader(old, metadata.Pairs("secret", "of a"))
		return &probepb.DoResponse{}, nil
	})
	for range 20 {
		do("b", "late")
		require.Empty(t, call.Header)
	}
}

// A call gives up while it moves on to the next activation. This is for the race detector.
func TestCallGivesUpBetweenTwoActivations(t *testing.T) {
	s := newSite(t, nil)
	left := make(chan struct{})
	s.world.Leave = func() { <-left }
	s.world.SetAction("drop", drop)
	for i := range 50 {
		key := strconv.Itoa(i)
		require.NoError(t, s.do(s.ctx(), key, "drop"))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.client(key).Add(ctx, &probepb.AddRequest{}) // either outcome
		}()
		s.eventually(func() bool { return s.host.waiting.Load() == 1 })
		go cancel()
		left <- struct{}{}
		<-ended
	}
}

// A turn calls an object of its own shard, which is to be handed over when the turn has ended.
func TestCallWithinALeavingShard(t *testing.T) {
	s := newSite(t, nil)
	keys := keysOf(3, 3)
	begun, leaving := make(chan struct{}), make(chan struct{})
	s.world.SetAction("reply", reply)
	s.world.SetAction("call", func(ctx context.Context, _ *probepb.Probe, _ *probepb.DoRequest) (*probepb.DoResponse,
		error) {
		close(begun)
		<-leaving
		for _, key := range keys[1:] { // one of them is active
			if !s.host.MustRunHere(3, ChainOf(ctx)) {
				return nil, errors.New("the call would be made elsewhere")
			}
			if err := s.do(ctx, key, "reply"); err != nil {
				return nil, err
			}
		}
		return &probepb.DoResponse{}, nil
	})
	require.NoError(t, s.do(s.ctx(), keys[1], "reply"))
	ended := make(chan error, 1)
	go func() { ended <- s.do(s.ctx(), keys[0], "call") }()
	<-begun
	released := make(chan struct{})
	go func() {
		defer close(released)
		s.shards.release(s.ctx(), s.host, 3, cshard.ErrNotOwner)
	}()
	s.eventually(func() bool { return !s.shards.serves(3) })
	require.False(t, s.host.MustRunHere(3, []uint64{1}), "the chain of others")
	require.True(t, IsMoved(s.do(s.ctx(), keys[2], "reply")), "others go elsewhere")
	close(leaving)
	require.NoError(t, <-ended)
	<-released
	s.eventually(func() bool { return s.host.evictor.activations.Load() == 0 })
}

// A call that came by a newer map than the node's waits for that map for a while. Other calls do not wait
// because of the generation that it named.
func TestCallByANewerMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // hints last a second
		g := &generations{held: newHeld(16, false), answer: make(chan int64)}
		s := &site{t: t, shards: g.held, world: &probepb.World{}}
		var r registrar
		s.world.Register(&r, "here")
		s.host = New(limited(Config{Shards: g, At: func(key string) grpc.ClientConnInterface { return at{s, key} }}),
			NewServices(r.all))
		t.Cleanup(s.host.Close)
		shard := cshard.Of("a", 16)
		call := func(generation int64) error {
			return s.host.Invoke(s.ctx(), &Call{Method: s.host.services.Method(probepb.Probe_Add_FullMethodName), Key: "a",
				Shard: shard, Generation: generation, Request: &probepb.AddRequest{}, Response: &probepb.AddResponse{}})
		}
		old, newer, forged := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { old <- call(10) }()
		go func() { newer <- call(12) }()
		go func() { forged <- call(math.MaxInt64) }()
		s.eventually(func() bool { return s.host.waiting.Load() == 3 })
		g.answer <- 11
		require.True(t, IsMoved(<-old))
		for range 100 {
			require.True(t, IsMoved(call(11)), "it is known that the shard is elsewhere")
		}
		require.Len(t, newer, 0)
		g.answer <- 12
		require.True(t, IsMoved(<-newer))
		require.True(t, IsMoved(<-forged), "in the time that it may wait")
		s.eventually(func() bool { return !s.host.awaits(shard) })

		go func() { old <- call(10) }()
		go func() { newer <- call(12) }()
		s.eventually(func() bool { return s.host.waiting.Load() == 2 })
		g.answer <- 11
		require.True(t, IsMoved(<-old))
		g.held.acquire(shard)
		g.answer <- 0
		require.NoError(t, <-newer)
		require.NoError(t, call(3), "it is served")
	})
}

// A call that came by a newer map waits for its shard once that map has arrived, until the former owner has
// released it. Calls of this node by the same map do so, too.
func TestCallByANewerMapThatHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		shard := cshard.Of("a", 16)
		s.shards.release(s.ctx(), s.host, shard, cshard.ErrNotOwner)
		ended := make(chan error, 2)
		call := func() {
			s.host.ServeCall(&Call{Method: s.host.services.Method(probepb.Probe_Add_FullMethodName), Key: "a", Shard: shard,
				Generation: elsewhere + 1, Request: &probepb.AddRequest{}, Response: &probepb.AddResponse{}},
				func(err error) { ended <- err })
		}
		call()
		synctest.Wait()
		s.shards.comes(shard)
		call()
		<-time.After(5 * hintLifetime) // of virtual time
		require.Empty(t, ended, "nobody else has the shard by the map")
		s.shards.acquire(shard)
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	})
}

// Once etcd was restored from a backup, generations that callers named before are void.
func TestCallByTheMapOfAnotherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // hints last a second
		g := &generations{held: newHeld(16, false), answer: make(chan int64)}
		s := &site{t: t, shards: g.held, world: &probepb.World{}}
		var r registrar
		s.world.Register(&r, "here")
		s.host = New(limited(Config{Shards: g}), NewServices(r.all))
		t.Cleanup(s.host.Close)
		ended := make(chan error, 1)
		began := time.Now()
		go func() {
			ended <- s.host.Invoke(s.ctx(), &Call{Method: s.host.services.Method(probepb.Probe_Add_FullMethodName), Key: "a",
				Shard: cshard.Of("a", 16), Generation: 40, Request: &probepb.AddRequest{}, Response: &probepb.AddResponse{}})
		}()
		synctest.Wait()
		require.EqualValues(t, 1, s.host.waiting.Load())
		g.history.Add(1)
		g.answer <- 31
		require.True(t, IsMoved(<-ended))
		require.Less(t, time.Since(began), hintLifetime)
	})
}

// awaits reports whether a goroutine waits for a shard.
func (h *Host) awaits(n int) bool {
	s := &h.shards[n]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awaiting
}

// generations is a node's part in the shards in which a test sets the generation of the map that assigns them
// elsewhere; 0 means that they are served.
type generations struct {
	*held
	answer  chan int64
	history atomic.Int64
}

func (g *generations) Await(ctx context.Context, _ int, seen int64) (int64, error) {
	select {
	case generation := <-g.answer:
		if generation == 0 {
			return 0, nil
		}
		return generation, cshard.ErrNotOwner
	case <-ctx.Done():
		return seen, ctx.Err()
	}
}

func (g *generations) History() int { return int(g.history.Load()) }

var _ Shards = (*generations)(nil)

// The context of an activation that has ended has ended, too, even if the shard has come back.
func TestContextAfterTheActivation(t *testing.T) {
	s := newSite(t, nil)
	var kept *objects.Object
	s.world.OnActivate = func(_ context.Context, o *objects.Object) error { kept = o; return nil }
	_, err := s.client("a").Add(s.ctx(), &probepb.AddRequest{})
	require.NoError(t, err)
	require.True(t, kept.Valid())
	n := cshard.Of("a", 16)
	s.shards.release(s.ctx(), s.host, n, cshard.ErrNotOwner)
	require.False(t, kept.Valid())
	s.shards.acquire(n)
	require.ErrorIs(t, kept.Context().Err(), context.Canceled)
	require.False(t, kept.Valid())
}
