package objects_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/proto/goverse/node/v1"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// besideHostile bounds the time of a call beside hostile values, on a machine that is busy with sending them
// and with other tests. A call that hangs takes at least 10 s.
const besideHostile = 6 * time.Second

// victims call objects all the time, and record how long that takes.
type victims struct {
	began   [8]atomic.Int64 // the beginning of each one's present call; 0 if it is in none
	longest atomic.Int64
	failed  atomic.Pointer[error]
	calls   atomic.Int64
}

// call calls objects until ctx ends.
func (v *victims) call(ctx context.Context, c *clustertest.Cluster) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for g := range v.began {
		at := c.Node(g % len(c.Nodes())).Cluster().Objects().At
		wg.Go(func() {
			pause := time.NewTicker(3 * time.Millisecond)
			defer pause.Stop()
			for k := g; ctx.Err() == nil; k++ {
				began := time.Now()
				v.began[g].Store(began.UnixNano())
				_, err := probepb.NewProbeClient(at(fmt.Sprint("key", k%100))).Add(ctx, &probepb.AddRequest{})
				v.began[g].Store(0)
				if err != nil && ctx.Err() == nil {
					v.failed.Store(&err)
				}
				v.took(time.Since(began))
				v.calls.Add(1)
				<-pause.C
			}
		})
	}
}

func (v *victims) took(d time.Duration) {
	for old := v.longest.Load(); int64(d) > old; old = v.longest.Load() {
		if v.longest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// check reports calls that failed, took too long, or have been in flight for too long.
func (v *victims) check(t testing.TB) {
	for g := range v.began {
		if began := v.began[g].Load(); began != 0 {
			v.took(time.Since(time.Unix(0, began)))
		}
	}
	if longest := time.Duration(v.longest.Swap(0)); longest > besideHostile {
		t.Errorf("somebody else's call took %v", longest)
	}
	if err := v.failed.Swap(nil); err != nil {
		t.Errorf("somebody else's call failed: %v", *err)
	}
}

// settle waits until the calls in flight have ended, or take too long.
func (v *victims) settle(t testing.TB) {
	asked := time.Now()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for g := range v.began {
		for began := v.began[g].Load(); began != 0 && began <= asked.UnixNano(); began = v.began[g].Load() {
			if time.Since(asked) > besideHostile {
				break
			}
			<-look.C
		}
	}
	v.check(t)
}

// hostile is one fuzz input: a value for each field of the messages and headers that a node accepts from any
// process.
type hostile struct {
	key, prefix, forwarded, method, name string
	generation, timeout                  int64
	chain, value                         []byte
	id, cancelled                        uint64
	more                                 bool
}

// headers adds the headers of a call from outside.
func (h hostile) headers(ctx context.Context) context.Context {
	md := metadata.Pairs("goverse-key-bin", h.key, "goverse-generation", strconv.FormatInt(h.generation, 10),
		"goverse-chain-bin", string(h.chain), "goverse-prefix-bin", h.prefix)
	if h.forwarded != "" {
		md.Set("goverse-forwarded", "1")
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// turns returns the chain of a call.
func (h hostile) turns() (all []uint64) {
	for _, b := range h.chain {
		all = append(all, math.MaxUint64/255*uint64(b))
	}
	return all
}

// unary makes a call from outside.
func (h hostile) unary(ctx context.Context, conn *grpc.ClientConn) {
	_, _ = probepb.NewProbeClient(conn).Add(h.headers(ctx), &probepb.AddRequest{})
}

// streams opens two streams to one object, one of which waits for its turn, and breaks them.
func (h hostile) streams(ctx context.Context, conn *grpc.ClientConn) {
	for range 2 {
		if s, err := probepb.NewProbeClient(conn).Chat(h.headers(ctx)); err == nil {
			_ = s.Send(&probepb.Blob{Data: h.value})
		}
	}
	<-ctx.Done()
}

// link sends a call as nodes do, with a part of another one, and breaks the link.
func (h hostile) link(ctx context.Context, conn *grpc.ClientConn) {
	s, err := objectspb.NewObjectsClient(conn).Link(ctx)
	if err != nil {
		return
	}
	call := &objectspb.Call{Id: h.id, Method: h.method, Key: []byte(h.key), Request: h.value, More: h.more,
		Timeout: h.timeout, Chain: h.turns(), Generation: h.generation,
		Metadata: []*objectspb.Header{{Name: h.name, Value: h.value}}}
	plain := &objectspb.Call{Id: h.id + 1, Method: probepb.Probe_Add_FullMethodName, Key: []byte(h.key),
		Chain: h.turns(), Generation: h.generation, Timeout: h.timeout}
	_ = s.Send(&objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: h.prefix}})
	_ = s.Send(&objectspb.LinkRequest{Calls: []*objectspb.Call{plain, call}, Cancelled: []uint64{h.cancelled}})
	for {
		if _, err := s.Recv(); err != nil {
			return
		}
	}
}

// ask sends the requests that a node answers to any process.
func (h hostile) ask(ctx context.Context, conn *grpc.ClientConn) {
	client := objectspb.NewObjectsClient(conn)
	_, _ = client.Describe(ctx, &objectspb.DescribeRequest{Prefix: h.prefix, Key: []byte(h.key)})
	if s, err := client.WatchRoutes(ctx, &objectspb.WatchRoutesRequest{Prefix: h.prefix,
		Heartbeat: h.timeout}); err == nil {
		_, _ = s.Recv()
	}
	if s, err := nodepb.NewNodeClient(conn).Watch(ctx); err == nil {
		_ = s.Send(&nodepb.WatchRequest{InstanceId: h.name, Heartbeats: h.more})
		_, _ = s.Recv()
		_ = s.Send(&nodepb.WatchRequest{InstanceId: h.name, Proof: h.value})
		_, _ = s.Recv()
	}
}

// An outsider fills the fields of the messages and headers with any values while shards move. No call of other
// clients fails or exceeds a time bound.
func FuzzHostileFields(f *testing.F) {
	c := clustertest.New(f, 0, clustertest.WithTTL(10), clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 16, 20*time.Millisecond, 2
		cfg.Sharding.MovesPerMinute = 100000
	}))
	w := &probepb.World{}
	var conns []*grpc.ClientConn
	for range 2 {
		n := c.NewNode()
		w.Register(n.Cluster(), n.Address())
		if err := n.Start(context.Background()); err != nil {
			f.Fatal(err)
		}
		conn, err := grpc.NewClient(n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { _ = conn.Close() })
		conns = append(conns, conn)
	}
	var v victims
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { v.call(ctx, c) })
	wg.Go(func() { drainByTurns(ctx, c) })
	f.Cleanup(func() {
		v.settle(f)
		stop()
		wg.Wait()
	})

	add, chat := probepb.Probe_Add_FullMethodName, probepb.Probe_Chat_FullMethodName
	for door := range uint8(4) {
		for _, forwarded := range []string{"", "1"} {
			f.Add(door, "attacked", clustertest.Prefix, forwarded, add, "x", int64(math.MaxInt64), int64(math.MaxInt64),
				[]byte{255, 255, 255, 255, 255, 255, 255, 255}, []byte("x"), uint64(1), uint64(1), false)
			f.Add(door, "key1", clustertest.Prefix, forwarded, chat, "goverse-key", int64(math.MinInt64), int64(-1),
				make([]byte, 8*65), make([]byte, 1<<16), uint64(math.MaxUint64), uint64(0), true)
			f.Add(door, "\x00", "/other", forwarded, "", "grpc-timeout", int64(0), int64(1), []byte{}, []byte{}, uint64(0),
				uint64(7), true)
		}
	}
	f.Fuzz(func(t *testing.T, door uint8, key, prefix, forwarded, method, name string, generation, timeout int64,
		chain, value []byte, id, cancelled uint64, more bool) {
		h := hostile{key: key, prefix: prefix, forwarded: forwarded, method: method, name: name, generation: generation,
			timeout: timeout, chain: chain, value: value, id: id, cancelled: cancelled, more: more}
		if len(key) == 0 || key[0]%4 != 0 { // otherwise it would mostly be about an object that does not exist
			h.key = "attacked " + strconv.Itoa(len(key)%32)
		}
		if len(prefix)%4 != 0 {
			h.prefix = clustertest.Prefix
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		conn := conns[int(id%uint64(len(conns)))]
		[]func(context.Context, *grpc.ClientConn){h.unary, h.streams, h.link, h.ask}[door%4](ctx, conn)
		v.check(t)
	})
}

// drainByTurns makes shards move until ctx ends.
func drainByTurns(ctx context.Context, c *clustertest.Cluster) {
	for i := 0; ctx.Err() == nil; i++ {
		n := c.Node(i % len(c.Nodes()))
		_, _ = n.Cluster().Drain(ctx, n.Address()) // refused while the other node is still drained
		_, _ = n.Cluster().Undrain(ctx, n.Address())
		back := time.NewTimer(100 * time.Millisecond)
		select {
		case <-back.C:
		case <-ctx.Done():
		}
		back.Stop()
	}
}
