package endpoints

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/balancer"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// conn is a connection to an endpoint.
type conn struct {
	balancer.SubConn
	name string
}

// turns chooses one connection after the other.
type turns struct {
	conns []*conn
	next  int
	err   error
}

func (t *turns) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	t.next++
	return balancer.PickResult{SubConn: t.conns[(t.next-1)%len(t.conns)]}, t.err
}

// chooser chooses among the endpoints a, b and c.
type chooser struct {
	t *testing.T
	*picker
}

func newChooser(t *testing.T) chooser {
	return chooser{t, &picker{turns: &turns{conns: []*conn{{name: "a"}, {name: "b"}, {name: "c"}}},
		debts: &debts{of: map[balancer.SubConn]debt{}}}}
}

// send sends a request. It returns the endpoint's name, and a function that ends the request.
func (c chooser) send(method string) (endpoint string, end func(err error)) {
	c.t.Helper()
	r, err := c.Pick(balancer.PickInfo{FullMethodName: method})
	require.NoError(c.t, err)
	return r.SubConn.(*conn).name, func(err error) {
		if r.Done != nil {
			r.Done(balancer.DoneInfo{Err: err, BytesReceived: err == nil})
		}
	}
}

const get, watch = "/etcdserverpb.KV/Range", "/etcdserverpb.Watch/Watch"

// ask sends n requests, one after the other, which are answered at once. It returns the endpoints.
func (c chooser) ask(n int) (endpoints string) {
	c.t.Helper()
	for range n {
		endpoint, end := c.send(get)
		endpoints += endpoint
		end(nil)
	}
	return endpoints
}

func TestAnEndpointThatDoesNotAnswerIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(t)
		require.Equal(t, "abcab", c.ask(5))
		lost, end := c.send(get)
		require.Equal(t, "c", lost)
		require.Equal(t, "abcab", c.ask(5), "it may still answer")
		_, again := c.send(get)
		pass(patience)
		require.Equal(t, "ababa", c.ask(5))
		for range 3 {
			stream, _ := c.send(watch)
			require.NotEqual(t, "c", stream, "nor is a stream opened there")
		}
		end(context.Canceled)
		require.NotContains(t, c.ask(6), "c")
		again(context.Canceled)
		pass(memory - time.Millisecond)
		require.NotContains(t, c.ask(6), "c", "it is remembered")
		pass(time.Millisecond)
		require.Contains(t, c.ask(3), "c", "it is asked again")
		require.Empty(t, c.debts.of)
	})
}

func TestAnAnswerForgivesTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(t)
		_, early := c.send(get)
		_, end := c.send(get)
		end(nil)
		_, end = c.send(get)
		end(nil)
		_, late := c.send(get)
		pass(patience)
		require.NotContains(t, c.ask(4), "a")
		late(nil)
		require.Contains(t, c.ask(3), "a", "of two requests one was answered")
		pass(patience)
		require.NotContains(t, c.ask(4), "a", "the other one still is not")
		early(nil)
		require.Contains(t, c.ask(3), "a")
		require.Empty(t, c.debts.of)
	})
}

// If no endpoint answers they take turns, as with round_robin: none may be left out forever.
func TestWithoutAnAnswerTheyTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(t)
		var asked string
		for range 6 {
			endpoint, _ := c.send(get)
			pass(patience)
			asked += endpoint
		}
		require.Len(t, asked, 6)
		for _, endpoint := range []string{"a", "b", "c"} {
			require.Contains(t, asked, endpoint)
		}
		c.turns.(*turns).err = balancer.ErrNoSubConnAvailable
		_, err := c.Pick(balancer.PickInfo{FullMethodName: get})
		require.ErrorIs(t, err, balancer.ErrNoSubConnAvailable)
	})
}

// A request that is given up early says nothing about the endpoint, and neither does a stream that stands.
func TestWhatSaysNothingIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(t)
		_, end := c.send(get)
		pass(patience - time.Millisecond)
		end(context.Canceled)
		require.Empty(t, c.debts.of)
		c.send(watch)
		pass(time.Hour)
		require.Equal(t, "cab", c.ask(3))
	})
}

// A client of three endpoints, one of which swallows what it receives, waits for it once.
func TestClientWaitsOnceForALostEndpoint(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	var endpoints []string
	var relays []*fault.Relay
	for range 3 {
		r, err := fault.NewRelay(server.Endpoint())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		endpoints, relays = append(endpoints, r.Address()), append(relays, r)
	}
	wait := func(cfg clientv3.Config) (waited int) {
		cfg.Endpoints, cfg.Logger = endpoints, zap.NewNop()
		client, err := clientv3.New(cfg)
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		for _, r := range relays { // until it has connected to all
			require.Eventually(t, func() bool {
				_, err := client.Get(etcdtest.Context(t), "key")
				return err == nil && r.Connections() == 1
			}, time.Minute, time.Millisecond)
		}
		relays[1].Blackhole(fault.Both)
		defer func() { require.NoError(t, relays[1].Heal()) }()
		for range 12 {
			ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
			_, err := client.Get(ctx, "key")
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				waited++
			}
		}
		return waited
	}
	require.GreaterOrEqual(t, wait(clientv3.Config{}), 3, "etcd's own client waits each time")
	require.LessOrEqual(t, wait(clientv3.Config{DialOptions: DialOptions()}), 1)
}

func pass(d time.Duration) { <-time.After(d) }
