package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd/deadline"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// scripted is a node that treats each watcher by a script, after the messages that open the watch.
type scripted struct {
	nodepb.UnimplementedNodeServer
	hello  *nodepb.WatchResponse
	script func(hello *nodepb.WatchRequest, stream watchStream) error
}

// Watch implements nodepb.NodeServer.
func (s scripted) Watch(stream watchStream) error {
	hello, err := stream.Recv()
	if err != nil {
		return err
	}
	if err := stream.Send(s.hello); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return s.script(hello, stream)
}

// serveScript starts a node with a script, and returns its address. Heartbeats is what the node announces.
func serveScript(t *testing.T, heartbeats bool,
	script func(hello *nodepb.WatchRequest, stream watchStream) error) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.StaticStreamWindowSize(64<<10), // for the pings of watches:
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	nodepb.RegisterNodeServer(server, scripted{script: script,
		hello: &nodepb.WatchResponse{InstanceId: "scripted", Heartbeats: heartbeats}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return listener.Addr().String()
}

// watchScript opens a watch on such a node.
func watchScript(t *testing.T, address string, heard func(heartbeat.Beat) bool) *Watch {
	t.Helper()
	w, err := plainWatcher.openWatch(patient(t), address, "", heard, nil)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	t.Cleanup(func() { w.Close(ended) })
	return w
}

// awaitGoodbye receives until the watcher ends its side, and returns the numbers that it acknowledged.
func awaitGoodbye(stream watchStream) (acknowledged []uint64, err error) {
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return acknowledged, nil
		case err != nil:
			return acknowledged, err
		case m.GetAcknowledged() != 0:
			acknowledged = append(acknowledged, m.GetAcknowledged())
		}
	}
}

func beatOf(number uint64) *nodepb.Beat {
	return &nodepb.Beat{Number: number, Arming: 3, Watched: 4, Watcher: 5, AcknowledgedMs: 2800, ReadMs: 1400}
}

func sendBeat(stream watchStream, b *nodepb.Beat) error {
	return stream.Send(&nodepb.WatchResponse{Beat: b})
}

// malformed lists beats that a watcher ignores.
func malformed() []*nodepb.Beat {
	var all []*nodepb.Beat
	for _, spoil := range []func(b *nodepb.Beat){
		func(b *nodepb.Beat) { b.Number = 0 }, func(b *nodepb.Beat) { b.Arming = 0 },
		func(b *nodepb.Beat) { b.Watched = 0 }, func(b *nodepb.Beat) { b.Watched = -1 },
		func(b *nodepb.Beat) { b.Watcher = 0 }, func(b *nodepb.Beat) { b.Watcher = -1 },
		func(b *nodepb.Beat) { b.AcknowledgedMs = 0 }, func(b *nodepb.Beat) { b.ReadMs = -1 },
		func(b *nodepb.Beat) { b.AcknowledgedMs = 3_600_001 }, func(b *nodepb.Beat) { b.ReadMs = 1 << 62 },
	} {
		b := beatOf(1)
		spoil(b)
		all = append(all, b)
	}
	return append(all, &nodepb.Beat{}, nil)
}

func TestBeatMessages(t *testing.T) {
	t.Parallel()
	for _, m := range malformed() {
		_, ok := parseBeat(m)
		require.False(t, ok, m)
	}
	require.Nil(t, beatMessage(heartbeat.Beat{}), "it does not arm")
	b := heartbeat.Beat{Number: 1 << 63, Arming: 2, Watched: 1 << 62, Watcher: 4, Heard: 1 << 63,
		Times: deadline.ProofTimes{Acknowledged: time.Hour, Read: time.Millisecond}}
	parsed, ok := parseBeat(beatMessage(b))
	require.True(t, ok)
	require.Equal(t, b, parsed)
	for exact, rounded := range map[time.Duration]time.Duration{
		1: time.Millisecond, 2800 * time.Millisecond: 2800 * time.Millisecond,
		2800*time.Millisecond + 1: 2801 * time.Millisecond,
	} {
		b.Times.Acknowledged, b.Times.Read = exact, exact
		parsed, ok = parseBeat(beatMessage(b))
		require.True(t, ok)
		require.Equal(t, deadline.ProofTimes{Acknowledged: rounded, Read: rounded}, parsed.Times)
	}
	b.Times.Read = 0
	_, ok = parseBeat(beatMessage(b))
	require.False(t, ok)
}

// Malformed beats count as heartbeats and nothing else.
func TestMalformedBeatsAreIgnored(t *testing.T) {
	t.Parallel()
	arrived, acknowledged := make(chan struct{}), make(chan []uint64, 1)
	address := serveScript(t, true, func(_ *nodepb.WatchRequest, stream watchStream) error {
		for _, b := range append(malformed(), beatOf(9)) {
			if err := sendBeat(stream, b); err != nil {
				return err
			}
		}
		m, err := stream.Recv()
		for err == nil && m.GetAcknowledged() == 0 {
			m, err = stream.Recv()
		}
		if err != nil {
			return err
		}
		close(arrived)
		more, err := awaitGoodbye(stream)
		acknowledged <- append([]uint64{m.GetAcknowledged()}, more...)
		return err
	})
	heard := make(chan heartbeat.Beat, 100)
	w := watchScript(t, address, func(b heartbeat.Beat) bool { heard <- b; return true })
	want := heartbeat.Beat{Number: 9, Arming: 3, Watched: 4, Watcher: 5,
		Times: deadline.ProofTimes{Acknowledged: 2800 * time.Millisecond, Read: 1400 * time.Millisecond}}
	require.Equal(t, want, <-heard)
	require.EqualValues(t, len(malformed())+1, w.Heard())
	<-arrived
	require.True(t, w.Close(patient(t)))
	require.Equal(t, []uint64{9}, <-acknowledged)
	require.Empty(t, heard)
}

// Only heartbeats for which heard returns true are acknowledged.
func TestAcknowledgementsAreOfWhatWasHeard(t *testing.T) {
	t.Parallel()
	r := newRecorder(5 * time.Millisecond)
	n, member := armedNode(t, r)
	third := func(b heartbeat.Beat) bool { return b.Number%3 == 0 }
	w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", third)
	require.NoError(t, err)
	for _, number := range r.requireAcknowledged(t, 1, 10) {
		require.Zero(t, number%3)
	}
	require.True(t, w.Close(patient(t)))
	r.requireEnd(t, n, 1)
}

// Nodes of older versions send no heartbeats, or none that arm.
func TestOlderNodesDoNotArm(t *testing.T) {
	t.Parallel()
	never := func(b heartbeat.Beat) bool { t.Error("heard", b); return true }
	older := func(beat *nodepb.Beat) func(*nodepb.WatchRequest, watchStream) error {
		return func(_ *nodepb.WatchRequest, stream watchStream) error {
			for range 3 {
				if err := sendBeat(stream, beat); err != nil {
					return err
				}
			}
			acknowledged, err := awaitGoodbye(stream)
			if len(acknowledged) > 0 {
				t.Error("acknowledged", acknowledged)
			}
			return err
		}
	}
	for _, address := range []string{serveScript(t, true, older(nil)), serveScript(t, false, older(beatOf(1)))} {
		w := watchScript(t, address, never)
		require.Eventually(t, func() bool { return w.Heard() >= 3 }, time.Minute, time.Millisecond)
		require.True(t, w.Close(patient(t)))
	}
	address := serveScript(t, true, func(hello *nodepb.WatchRequest, stream watchStream) error {
		if hello.GetAcknowledges() {
			return status.Error(codes.InvalidArgument, "it announces acknowledgements")
		}
		return older(beatOf(1))(hello, stream)
	})
	w := watchScript(t, address, nil)
	require.Eventually(t, func() bool { return w.Heard() >= 3 }, time.Minute, time.Millisecond)
	require.True(t, w.Close(patient(t)))
}

// A watch hears the node although it cannot send. Then it acknowledges the newest heartbeat.
func TestBlockedSendDoesNotBlockReceiving(t *testing.T) {
	t.Parallel()
	const beats = 1000
	arrived, acknowledged := make(chan struct{}), make(chan []uint64, 1)
	address := serveScript(t, true, func(_ *nodepb.WatchRequest, stream watchStream) error {
		for number := range uint64(beats) {
			if err := sendBeat(stream, beatOf(number+1)); err != nil {
				return err
			}
		}
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			if m.GetAcknowledged() == beats {
				break
			}
		}
		close(arrived)
		numbers, err := awaitGoodbye(stream)
		acknowledged <- numbers
		return err
	})
	begun := make(chan struct{})
	w := watchScript(t, address, func(heartbeat.Beat) bool { <-begun; return true })
	w.send.Lock() // like a send that blocks
	close(begun)
	require.Eventually(t, func() bool { return w.Heard() == beats }, time.Minute, time.Millisecond)
	w.send.Unlock()
	<-arrived
	require.True(t, w.Close(patient(t)))
	require.Empty(t, <-acknowledged, "each once")
}

// Close ends with its context, although the node reads nothing and a send is blocked.
func TestCloseEndsABlockedSend(t *testing.T) {
	t.Parallel()
	address := serveScript(t, true, func(_ *nodepb.WatchRequest, stream watchStream) error {
		<-stream.Context().Done()
		return nil
	})
	w := watchScript(t, address, acknowledgeAll)
	blocked := make(chan struct{})
	var wg sync.WaitGroup
	w.send.Lock()
	wg.Go(func() {
		defer w.send.Unlock()
		large := &nodepb.WatchRequest{Proof: make([]byte, 1<<20)}
		_ = w.stream.Send(large) // exceeds what may be sent unread
		close(blocked)
		for w.stream.Send(large) == nil { // blocks until the stream ends
		}
	})
	<-blocked
	brief, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	received := make(chan bool, 1)
	wg.Go(func() { received <- w.Close(brief) })
	select {
	case r := <-received:
		require.False(t, r)
	case <-patient(t).Done():
		w.cancel()
		t.Error("Close waits for the send")
	}
	wg.Wait()
}

// Close reports a goodbye as received only if the node has certainly read it.
func TestCloseReportsWhatWasReceived(t *testing.T) {
	t.Parallel()
	goodbye := &nodepb.WatchResponse{Goodbye: true}
	for name, c := range map[string]struct {
		script   func(*nodepb.WatchRequest, watchStream) error
		first    bool // the node ends the watch by itself
		received bool
	}{
		"it reads the goodbye": {received: true, script: func(_ *nodepb.WatchRequest, stream watchStream) error {
			_, err := awaitGoodbye(stream)
			return err
		}},
		"it reads the goodbye and ends with an error": {script: func(_ *nodepb.WatchRequest, stream watchStream) error {
			_, _ = awaitGoodbye(stream)
			return status.Error(codes.Unavailable, "stopping")
		}},
		// The node stops. It says goodbye to all watchers, whether it has read anything or not.
		"it reads the goodbye and says its own": {script: func(_ *nodepb.WatchRequest, stream watchStream) error {
			_, _ = awaitGoodbye(stream)
			return stream.Send(goodbye)
		}},
		"it says goodbye": {first: true, script: func(_ *nodepb.WatchRequest, stream watchStream) error {
			return stream.Send(goodbye)
		}},
		"it ends the stream": {first: true, script: func(*nodepb.WatchRequest, watchStream) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watchScript(t, serveScript(t, true, c.script), acknowledgeAll)
			if c.first {
				require.NotErrorIs(t, w.Wait(patient(t)), context.DeadlineExceeded)
			}
			require.Equal(t, c.received, w.Close(patient(t)))
			require.Equal(t, c.received, w.Close(patient(t)), "and again")
		})
	}
}

// cutRelay passes one connection on, to a node that advertises the relay's address.
type cutRelay struct {
	listener net.Listener
	frozen   chan struct{} // closed: the node's answers are swallowed
	ends     chan [2]net.Conn
	wg       sync.WaitGroup
}

func newCutRelay(t *testing.T) *cutRelay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return &cutRelay{listener: listener, frozen: make(chan struct{}), ends: make(chan [2]net.Conn, 1)}
}

func (r *cutRelay) run(to string) {
	from, err := r.listener.Accept()
	if err != nil {
		return
	}
	node, err := net.Dial("tcp", to)
	if err != nil {
		_ = from.Close()
		return
	}
	r.ends <- [2]net.Conn{from, node}
	r.wg.Go(func() { pipe(node, from) })
	buf := make([]byte, 1<<10)
	for {
		n, err := node.Read(buf)
		if err != nil {
			break
		}
		select {
		case <-r.frozen:
			continue
		default:
		}
		if _, err := from.Write(buf[:n]); err != nil {
			break
		}
	}
	_ = from.Close()
	_ = node.Close()
}

// cut closes both ends of the connection.
func (r *cutRelay) cut() {
	for _, c := range <-r.ends {
		_ = c.Close()
	}
}

// If the connection is cut before or during the goodbye, Close does not report it as received.
func TestCloseOfACutWatch(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"before the goodbye": false, "before the answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			member, relay := local(t), newCutRelay(t)
			n, err := NewNode(Config{AdvertiseAddress: relay.listener.Addr().String(), ListenAddress: "127.0.0.1:0"})
			require.NoError(t, err)
			defer func() { require.NoError(t, n.Close()) }()
			n.SetRoster(func(string) ([]byte, bool) { return member.WatchKey(), true })
			r := newRecorder(5 * time.Millisecond)
			n.SetArmer(r)
			require.NoError(t, n.Start())
			relay.wg.Go(func() { relay.run(n.ListenAddress()) })
			defer relay.wg.Wait()
			defer func() { _ = relay.listener.Close() }()

			w, err := member.OpenWatch(patient(t), relay.listener.Addr().String(), "", acknowledgeAll)
			require.NoError(t, err)
			r.requireAcknowledged(t, 1, 1)
			if !answered {
				relay.cut()
				require.ErrorIs(t, w.Wait(patient(t)), ErrBroken)
				require.False(t, w.Close(patient(t)))
				requireLost(t, n)
				r.requireEnd(t, n)
				return
			}
			close(relay.frozen)
			received := make(chan bool, 1)
			var wg sync.WaitGroup
			wg.Go(func() { received <- w.Close(patient(t)) })
			require.Eventually(t, func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return len(r.goodbyes) == 1
			}, time.Minute, time.Millisecond)
			relay.cut()
			require.False(t, <-received, "the node has received it, but has not said so")
			wg.Wait()
			r.requireEnd(t, n, 1)
		})
	}
}
