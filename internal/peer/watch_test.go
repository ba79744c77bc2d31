package peer

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/test/pace"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// plainWatcher is a watcher that can prove nothing.
var plainWatcher = watcherName{instance: "watcher"}

func openWatch(t *testing.T, n *Node) *Watch {
	t.Helper()
	w, err := plainWatcher.openWatch(patient(t), n.AdvertiseAddress(), "", nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { w.Close(context.Background()) })
	require.Equal(t, n.InstanceID(), w.InstanceID)
	return w
}

// requireWatched waits until the node has a watcher.
func requireWatched(t *testing.T, n *Node) {
	t.Helper()
	require.Eventually(t, func() bool { return n.Watchers() == 1 }, time.Minute, time.Millisecond)
}

// lost reports whether the node lost a watcher.
func lost(n *Node) bool {
	select {
	case <-n.WatcherLost():
		return true
	default:
		return false
	}
}

func requireLost(t *testing.T, n *Node) {
	t.Helper()
	select {
	case <-n.WatcherLost():
	case <-patient(t).Done():
		t.Fatal("the loss of a watcher goes unnoticed")
	}
}

func TestWatchEndsWithAGoodbyeWhenTheNodeStops(t *testing.T) {
	n := started(t)
	w := openWatch(t, n)
	brief, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.Wait(brief), context.DeadlineExceeded, "it stays open")
	n.MarkStopping()
	brief, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.Wait(brief), context.DeadlineExceeded, "until it really stops")
	require.NoError(t, n.Stop(patient(t)), "watchers do not delay it")
	require.NoError(t, w.Wait(patient(t)))
	require.False(t, lost(n))
}

func TestWatchBreaksWhenTheNodeIsClosed(t *testing.T) {
	n := started(t)
	w := openWatch(t, n)
	require.NoError(t, n.Close())
	require.ErrorIs(t, w.Wait(patient(t)), ErrBroken)
}

func TestNodeNoticesWhetherAWatcherSaidGoodbye(t *testing.T) {
	n := started(t)
	for range 20 {
		w, err := plainWatcher.openWatch(patient(t), n.AdvertiseAddress(), "", nil, nil)
		require.NoError(t, err)
		w.Close(patient(t))
	}
	require.False(t, lost(n), "Close returns when the node has taken note")
	over, cancel := context.WithCancel(context.Background())
	cancel()
	w := openWatch(t, n)
	requireWatched(t, n)
	w.Close(over)
	requireLost(t, n)

	// The process of a watcher dies, and its connection breaks.
	conns := make(chan net.Conn, 1)
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = relay.Close() }()
	piped := make(chan struct{}, 2)
	go func() {
		from, err := relay.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", n.AdvertiseAddress())
		if err != nil {
			return
		}
		conns <- to
		go func() { pipe(from, to); piped <- struct{}{} }()
		pipe(to, from)
		piped <- struct{}{}
	}()
	w, err = plainWatcher.openWatch(patient(t), relay.Addr().String(), "", nil, nil)
	require.NoError(t, err)
	requireWatched(t, n)
	require.NoError(t, (<-conns).Close())
	requireLost(t, n)
	require.ErrorIs(t, w.Wait(patient(t)), ErrBroken)
	w.Close(patient(t))
	<-piped
	<-piped
}

// pipe copies until either side ends, and closes both.
func pipe(to, from net.Conn) {
	buf := make([]byte, 1<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			break
		}
		if _, err := to.Write(buf[:n]); err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}

func TestWatchThatCannotBeOpened(t *testing.T) {
	_, err := plainWatcher.openWatch(patient(t), "nowhere", "", nil, nil)
	requireOnly(t, err, ErrBadAddress)

	silent := local(t) // bound, but never started
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = plainWatcher.openWatch(ctx, silent.AdvertiseAddress(), "", nil, nil)
	requireOnly(t, err, ErrNoAnswer)

	require.NoError(t, silent.Close())
	_, err = plainWatcher.openWatch(patient(t), silent.AdvertiseAddress(), "", nil, nil)
	requireOnly(t, err, ErrRefused)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	other := grpc.NewServer() // of another service
	done := make(chan error, 1)
	go func() { done <- other.Serve(l) }()
	_, err = plainWatcher.openWatch(patient(t), l.Addr().String(), "", nil, nil)
	requireOnly(t, err, ErrNotNode)
	other.Stop()
	require.NoError(t, <-done)
}

// A watcher that stands still, or never sends anything, does not delay a stop.
func TestSilentWatcherDoesNotDelayStop(t *testing.T) {
	n := started(t)
	// The node's answers are not read, and grpc's own pings not answered.
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = relay.Close() }()
	frozen, thawed := make(chan struct{}), make(chan struct{})
	piped := make(chan struct{}, 2)
	go func() {
		from, err := relay.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", n.AdvertiseAddress())
		if err != nil {
			return
		}
		go func() { pipe(to, from); piped <- struct{}{} }()
		buf := make([]byte, 1<<10)
		for {
			k, err := to.Read(buf)
			select {
			case <-frozen:
				<-thawed
			default:
			}
			if err != nil {
				break
			}
			_, _ = from.Write(buf[:k])
		}
		_ = from.Close()
		piped <- struct{}{}
	}()
	w, err := plainWatcher.openWatch(patient(t), relay.Addr().String(), "", nil, nil)
	require.NoError(t, err)
	mute, err := nodepb.NewNodeClient(dial(t, n)).Watch(patient(t)) // it sends nothing
	require.NoError(t, err)
	require.NoError(t, mute.CloseSend())
	mute, err = nodepb.NewNodeClient(dial(t, n)).Watch(patient(t))
	require.NoError(t, err)
	_, err = Identify(patient(t), n.AdvertiseAddress())
	require.NoError(t, err)
	close(frozen)
	meter := pace.StartMeter(t)
	began := time.Now()
	require.NoError(t, n.Stop(patient(t)))
	require.Less(t, time.Since(began), meter.Scale(4*time.Second), "grpc alone waits five seconds")
	close(thawed)
	require.NotErrorIs(t, w.Wait(patient(t)), context.DeadlineExceeded) // the goodbye may still arrive
	w.Close(patient(t))
	<-piped
	<-piped
	_, err = mute.Recv()
	require.Error(t, err)
}
