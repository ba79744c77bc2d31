package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/probepb"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// scripted is a node that reports the routes given by the test, and answers every call successfully.
type scripted struct {
	objectspb.UnimplementedObjectsServer
	address string
	links   *link.Server
	stop    func()

	mu      sync.Mutex
	routes  *objectspb.WatchRoutesResponse
	changed chan struct{}
	beats   bool          // instead of routes that were sent before, a heartbeat is sent
	refuses error         // the error for programs that watch the routes
	busy    chan struct{} // receives for each call, which then gets no answer; nil: all calls are answered
}

func newScripted(t *testing.T, opts ...grpc.ServerOption) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &scripted{address: l.Addr().String(), changed: make(chan struct{})}
	s.links = link.NewServer(link.ServerConfig{Prefix: "/scripted", Handler: s})
	server := grpc.NewServer(opts...)
	objectspb.RegisterObjectsServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	s.stop = sync.OnceFunc(func() {
		server.Stop()
		_ = s.links.Close(context.Background()) // its streams have ended
		wg.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// Serve implements link.Handler.
func (s *scripted) Serve(in *link.Incoming) {
	if s.busy != nil {
		s.busy <- struct{}{}
		return
	}
	in.Reply(&objectspb.Reply{})
}

// Link implements objectspb.ObjectsServer.
func (s *scripted) Link(stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]) error {
	return s.links.Link(stream)
}

// say makes the node report one shard with that owner.
func (s *scripted) say(generation int64, owner, leader string) {
	r := &objectspb.WatchRoutesResponse{Prefix: "/scripted", Generation: generation, Owners: []uint32{0}, Leader: leader}
	if owner != "" {
		r.Addresses, r.Owners = []string{owner}, []uint32{1}
	}
	s.report(r)
}

// beat sends a heartbeat to the programs that watch the routes.
func (s *scripted) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats = true
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *scripted) report(r *objectspb.WatchRoutesResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes = r
	close(s.changed)
	s.changed = make(chan struct{})
}

// refuse ends the watches of the routes and refuses new ones.
func (s *scripted) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = err
	close(s.changed)
	s.changed = make(chan struct{})
}

// WatchRoutes implements objectspb.ObjectsServer.
func (s *scripted) WatchRoutes(_ *objectspb.WatchRoutesRequest,
	stream grpc.ServerStreamingServer[objectspb.WatchRoutesResponse]) error {
	var sent *objectspb.WatchRoutesResponse
	for {
		s.mu.Lock()
		routes, changed, refuses := s.routes, s.changed, s.refuses
		if s.beats && sent == routes {
			routes = &objectspb.WatchRoutesResponse{Unchanged: true}
		} else {
			sent = routes
		}
		s.mu.Unlock()
		if refuses != nil {
			return refuses
		}
		if routes != nil {
			if err := stream.Send(routes); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func switchBackoff(t *testing.T, nodes ...*scripted) *client.Client {
	t.Helper()
	var cfg client.Config
	for _, n := range nodes {
		cfg.Addresses = append(cfg.Addresses, n.address)
	}
	c, err := client.DialRestless(patient(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func awaitGeneration(t *testing.T, c *client.Client, generation int64) {
	t.Helper()
	require.Eventually(t, func() bool { return c.Generation() == generation }, time.Minute, time.Millisecond)
}

// A lagging node is not watched while another one may be found. After that, the cluster counts as created anew.
func TestOlderMapsCountOnlyAtLast(t *testing.T) {
	t.Parallel()
	first, lags, next := newScripted(t), newScripted(t), newScripted(t)
	first.say(7, next.address, "")
	c := switchBackoff(t, first)
	require.EqualValues(t, 7, c.Generation())
	next.say(7, lags.address, "")
	lags.say(6, lags.address, "")
	first.stop()
	awaitGeneration(t, c, 7)
	next.say(8, lags.address, next.address)
	awaitGeneration(t, c, 8)
	next.stop()
	awaitGeneration(t, c, 6)
	// Later reports of a node replace its earlier ones.
	lags.say(5, lags.address, "")
	awaitGeneration(t, c, 5)
	_, err := probepb.NewProbeClient(c.At("key")).Echo(patient(t), &probepb.Blob{})
	require.NoError(t, err)
}

// Calls wait for routes that the watched node does not know, but another node does.
func TestAnotherNodeIsWatchedIfCallsWait(t *testing.T) {
	t.Parallel()
	stale, fresh := newScripted(t), newScripted(t)
	stale.say(3, "", fresh.address) // the client learns of fresh from this
	c := switchBackoff(t, stale)
	fresh.say(4, fresh.address, fresh.address)
	_, err := probepb.NewProbeClient(c.At("key")).Echo(patient(t), &probepb.Blob{})
	require.NoError(t, err)
	require.EqualValues(t, 4, c.Generation())
}

func TestNoRoutesAndBrokenOnes(t *testing.T) {
	t.Parallel()
	n := newScripted(t)
	dial := func(part string) {
		t.Helper()
		var err error
		for within := time.Second; err == nil || within < time.Minute && !strings.Contains(err.Error(), part); within *= 2 {
			ctx, cancel := context.WithTimeoutCause(patient(t), within, errOwn) // a busy machine may answer later
			_, err = client.DialRestless(ctx, client.Config{Addresses: []string{n.address}})
			cancel()
			require.Error(t, err)
		}
		require.ErrorContains(t, err, part)
		require.True(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, errOwn))
	}
	dial("it has no routes yet")
	n.report(&objectspb.WatchRoutesResponse{Prefix: "/scripted", Generation: 1})
	dial("a map of 0 shards")
	n.report(&objectspb.WatchRoutesResponse{Prefix: "/scripted", Generation: 1, Owners: []uint32{1}})
	dial("no address for it")
}

// Calls to a shard without an owner wait for one. If their deadline passes, the error reports that they were
// not started.
func TestWithoutOwnerAndLeader(t *testing.T) {
	t.Parallel()
	n := newScripted(t)
	n.say(1, "", "")
	c := switchBackoff(t, n)
	brief, cancel := context.WithTimeout(patient(t), 50*time.Millisecond)
	defer cancel()
	_, err := probepb.NewProbeClient(c.At("key")).Echo(brief, &probepb.Blob{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "no node owns the shard")

	// Calls to the leader wait until there is a first one, with or without WaitForReady.
	conn := connect(t, c, "goverse:///leader", plain)
	identify := func(opts ...grpc.CallOption) <-chan error {
		answer := make(chan error, 1)
		ctx := patient(t)
		go func() {
			_, err := conn.Identify(ctx, &nodepb.IdentifyRequest{}, opts...)
			answer <- err
		}()
		return answer
	}
	waits := identify()
	n.say(1, "", n.address)
	require.Equal(t, codes.Unimplemented, status.Code(<-waits), "it has reached the leader")
	n.say(1, "", "")
	require.Eventually(t, func() bool { return c.Leader() == "" }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		err := <-identify()
		return status.Code(err) == codes.Unavailable && status.Convert(err).Message() != ""
	}, 20*time.Second, time.Millisecond)
	waits = identify(grpc.WaitForReady(true))
	n.say(1, "", n.address)
	require.Equal(t, codes.Unimplemented, status.Code(<-waits))
}

// A node that announced heartbeats and sends none counts as silent. The client watches another one and logs the
// reason.
func TestANodeThatFallsSilentIsLeft(t *testing.T) {
	t.Parallel()
	silent, other := newScripted(t), newScripted(t)
	other.say(8, other.address, "")
	silent.report(&objectspb.WatchRoutesResponse{Prefix: "/scripted", Generation: 7, Owners: []uint32{1},
		Addresses: []string{other.address}, Heartbeat: int64(100 * time.Millisecond)})
	log := &logtest.Buffer{}
	c, err := client.Dial(patient(t), client.Config{Addresses: []string{silent.address}, Logger: log.Logger()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	awaitGeneration(t, c, 8)
	// If the other node takes a while to answer, the silent node is asked, and lost, again.
	require.NotEmpty(t, log.Line("the node that reported the routes is lost", silent.address, "does not answer"))
}

// A node with an outdated view ends the stream and gives the reason. It is asked again only after the others.
func TestANodeThatIsOutOfDateIsLeft(t *testing.T) {
	t.Parallel()
	stale, other := newScripted(t), newScripted(t)
	other.say(8, other.address, "")
	stale.say(7, other.address, "")
	log := &logtest.Buffer{}
	c, err := client.Dial(patient(t), client.Config{Addresses: []string{stale.address}, Logger: log.Logger()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	stale.refuse(status.Error(codes.Unavailable, "no answer from etcd"))
	awaitGeneration(t, c, 8)
	require.NotEmpty(t, log.Line("the node that reported the routes is lost", stale.address, "no answer from etcd"))
	require.Equal(t, 1, log.Count("is lost"))
}

// Calls in flight at a process that is gone end when the routes report it, not at their deadlines. Other
// connections stay open. Heartbeats change nothing.
func TestCallsAtANodeThatIsGoneEnd(t *testing.T) {
	t.Parallel()
	source, gone, stays := newScripted(t), newScripted(t), newScripted(t)
	gone.busy, stays.busy = make(chan struct{}, 10), make(chan struct{}, 10)
	routes := func(generation int64, owner string, nodes ...string) *objectspb.WatchRoutesResponse {
		r := &objectspb.WatchRoutesResponse{Prefix: "/scripted", Generation: generation, Owners: []uint32{1},
			Addresses: []string{owner}}
		for _, n := range nodes {
			r.Nodes = append(r.Nodes, &objectspb.WatchRoutesResponse_Node{Address: n, Incarnation: 1})
		}
		return r
	}
	source.report(routes(1, gone.address, gone.address, stays.address))
	c := switchBackoff(t, source)
	call := func(busy chan struct{}) chan error {
		ended := make(chan error, 1)
		ctx := patient(t)
		go func() {
			_, err := probepb.NewProbeClient(c.At("key")).Echo(ctx, &probepb.Blob{})
			ended <- err
		}()
		<-busy
		return ended
	}
	first := call(gone.busy)
	source.report(routes(2, stays.address, gone.address, stays.address))
	awaitGeneration(t, c, 2)
	second := call(stays.busy)
	require.Empty(t, first, "its node drains")
	source.report(&objectspb.WatchRoutesResponse{Unchanged: true})
	source.report(routes(2, stays.address, stays.address))
	err := <-first
	require.Equal(t, objects.ReasonMayHaveStarted, objects.ReasonOf(err), "%v", err)
	require.Empty(t, second)
	moved := routes(2, stays.address, stays.address)
	moved.Nodes[0].Incarnation++
	source.report(moved)
	err = <-second
	require.Equal(t, objects.ReasonMayHaveStarted, objects.ReasonOf(err), "%v", err)
}

// A cluster that was restored from a backup has an older map. Calls that wait for a later map then use it.
func TestCallsThatWaitGoByARestoredMap(t *testing.T) {
	t.Parallel()
	n := newScripted(t)
	n.say(70, "", n.address)
	c := switchBackoff(t, n)
	ended := make(chan error, 1)
	ctx := patient(t)
	go func() {
		_, err := probepb.NewProbeClient(c.At("key")).Echo(ctx, &probepb.Blob{})
		ended <- err
	}()
	n.say(5, n.address, n.address)
	require.NoError(t, <-ended)
}

// A call waits for a connection to a node that accepts it and then sends nothing. At the deadline, its error
// reports that the call was not started.
func TestCallsThatWereNotSentSaySo(t *testing.T) {
	t.Parallel()
	n := newScripted(t)
	n.say(1, silent(t), "")
	c := switchBackoff(t, n)
	ctx, cancel := context.WithTimeout(patient(t), 200*time.Millisecond)
	defer cancel()
	_, err := probepb.NewProbeClient(c.At("key")).Echo(ctx, &probepb.Blob{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	require.True(t, objects.NotStarted(err), "%v", err)
}

// After a restoration all nodes know older maps. The map of a node that reports repeatedly that its view is
// current is accepted.
func TestOlderMapsOfACurrentNodeCount(t *testing.T) {
	t.Parallel()
	first, restored := newScripted(t), newScripted(t)
	first.say(70, restored.address, "")
	c, err := client.Dial(patient(t), client.Config{Addresses: []string{first.address}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	restored.report(&objectspb.WatchRoutesResponse{Prefix: "/scripted", Generation: 5, Owners: []uint32{1},
		Addresses: []string{restored.address}, Heartbeat: int64(time.Second)})
	began := time.Now()
	first.stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for c.Generation() != 5 {
		<-again.C
		restored.beat()
		require.Less(t, time.Since(began), 8*time.Second, "sooner than that of a node that cannot say so")
	}
}
