package route

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/hosted"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/test/probepb"
)

// part is a node's part in one shard, which the map, of generation 5, assigns to the node. It implements
// Map and host.Shards.
type part struct {
	serves  atomic.Bool
	refused atomic.Int64 // the number of refused calls
	former  atomic.Bool  // the next success is that of a former owner
	away    atomic.Bool  // the owner is a node that cannot be reached
}

func (*part) Shard(string) (int, bool)    { return 0, true }
func (*part) Former(int) string           { return "" }
func (*part) Count() int                  { return 1 }
func (p *part) Enter(int) (int64, bool)   { return 1, p.serves.Load() }
func (p *part) Reenter(int) (int64, bool) { return p.Enter(0) }
func (*part) Exit(int)                    {}
func (p *part) Holds(int, int64) bool     { return !p.former.CompareAndSwap(true, false) }
func (*part) Drained(int) context.Context { return context.Background() }
func (*part) Staying(int) context.Context { return context.Background() }
func (*part) History() int                { return 0 }

func (p *part) Owner(int) (string, int64) {
	if p.away.Load() {
		return "127.0.0.1:1", 5
	}
	return "here", 5
}

func (*part) AwaitChange(ctx context.Context, _ int, seen SeenOwner) error {
	if seen.ChangedBy("here", 5) {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// Await refuses calls, as at a node that leaves.
func (p *part) Await(context.Context, int, int64) (int64, error) {
	if p.serves.Load() {
		return 0, nil
	}
	p.refused.Add(1)
	return 7, errors.New("the shard is elsewhere")
}

type services struct{ all []hosted.Service }

func (s *services) Objects() *objects.Objects { return (*objects.Objects)(hosted.NewHandle(s)) }

func (s *services) Register(o hosted.Service) { s.all = append(s.all, o) }

func (*services) At(string) grpc.ClientConnInterface { return nil }

func (*services) Find(string) (owner string, here []objects.Activity) { return "", nil }

func (*services) Stats() (none objects.Stats) { return none }

// router returns a router of the node with that part.
func router(t testing.TB, p *part, server probepb.ProbeServer, options ...objects.Option) *Router {
	var s services
	objects.Register(&s, probepb.RegisterProbeServer,
		func(context.Context, *objects.Object) (probepb.ProbeServer, error) { return server, nil }, options...)
	registered := host.NewServices(s.all)
	h := host.New(host.Config{Shards: p, IdleAfter: time.Minute, MaxActive: 1024, MaxQueue: 1024, MaxWaiting: 1024,
		MaxMessage: 4 << 20, ActivationTimeout: 10 * time.Second, DrainTimeout: 10 * time.Second}, registered)
	t.Cleanup(h.Close)
	pool := link.NewPool(link.Config{})
	t.Cleanup(pool.Close)
	r, err := New(Config{Map: p, Pool: pool, Host: h, Self: "here", Services: registered, CallTimeout: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

type echo struct {
	probepb.UnimplementedProbeServer
	saw chan string
}

// Echo implements probepb.ProbeServer. The object may alter its request.
func (e *echo) Echo(_ context.Context, b *probepb.Blob) (*probepb.Blob, error) {
	e.saw <- string(b.GetData())
	clear(b.Data)
	return b, nil
}

// A call that this node refused is made here again although the map does not change, because it may not change
// for long.
func TestCallIsMadeAgainHere(t *testing.T) {
	p := &part{}
	r := router(t, p, &echo{saw: make(chan string, 1)})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- r.Do(ctx, &host.Call{Name: probepb.Probe_Echo_FullMethodName, Key: "a", Request: &probepb.Blob{},
			Response: &probepb.Blob{}})
	}()
	require.Eventually(t, func() bool { return p.refused.Load() > 0 }, 5*time.Second, time.Millisecond)
	p.serves.Store(true)
	require.NoError(t, <-ended)
}

// A call that is made twice has its request both times, whatever the first activation did with it.
func TestRepeatedCallHasARequestOfItsOwn(t *testing.T) {
	p := &part{}
	p.serves.Store(true)
	p.former.Store(true)
	e := &echo{saw: make(chan string, 2)}
	r := router(t, p, e, objects.Idempotent("Echo"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, r.Do(ctx, &host.Call{Name: probepb.Probe_Echo_FullMethodName, Key: "a",
		Request: &probepb.Blob{Data: []byte("hello")}, Response: &probepb.Blob{}, RequestOwned: true}))
	require.Equal(t, "hello", <-e.saw)
	require.Equal(t, "hello", <-e.saw)
}

// leaving is an object that sends metadata, and whose shard moves during the call.
type leaving struct {
	probepb.UnimplementedProbeServer
	move func()
}

func (e *leaving) Echo(ctx context.Context, b *probepb.Blob) (*probepb.Blob, error) {
	e.move()
	return b, errors.Join(grpc.SetHeader(ctx, metadata.Pairs("attempt", "first")),
		grpc.SetTrailer(ctx, metadata.Pairs("attempt", "first")))
}

// A call that is made again, and gets no reply, has no metadata of the first reply, and its error does not say that it
// was not started.
func TestRepeatedCallHasNothingOfTheFirstReply(t *testing.T) {
	for name, move := range map[string]func(*part){
		"the new owner cannot be reached": func(p *part) { p.away.Store(true) },
		"the owner refuses":               func(p *part) { p.serves.Store(false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &part{}
			p.serves.Store(true)
			p.former.Store(true)
			r := router(t, p, &leaving{move: func() { move(p) }}, objects.Idempotent("Echo"))
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			c := &host.Call{Name: probepb.Probe_Echo_FullMethodName, Key: "a", Request: &probepb.Blob{},
				Response: &probepb.Blob{}}
			err := r.Do(ctx, c)
			require.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
			require.False(t, objects.NotStarted(err), err)
			require.Empty(t, c.Header)
			require.Empty(t, c.Trailer)
		})
	}
}
