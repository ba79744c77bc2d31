package node

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// ErrBroken: a watch ended without the node's goodbye. The process may have died, or
// something between. Compare with errors.Is.
var ErrBroken = errors.New("the watch broke")

const (
	// A connection on which nothing is ever said is asked from time to time whether it
	// still stands: after a reboot of the other side nobody else would say.
	watchPing, watchPingTimeout = 10 * time.Second, 5 * time.Second
	// watchBuffer is enough for a connection that carries two messages.
	watchBuffer = 1 << 10
)

// A Watch is a stream to a node that stays open for as long as both processes live:
// when one dies, its kernel closes the connection, and the other learns it at once.
// All methods are safe for concurrent use.
type Watch struct {
	// InstanceID is of the process that answered; never empty.
	InstanceID string

	a      *attempt
	stream grpc.BidiStreamingClient[nodepb.WatchRequest, nodepb.WatchResponse]
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // read after ended

	beats bool // the node sends heartbeats, and takes them
	heard atomic.Uint64
	send  sync.Mutex // held to send; gRPC has one at a time do so
	said  bool       // goodbye; with send held
	wg    sync.WaitGroup
}

// OpenWatch opens a watch on the node at address (host:port) in the name of the
// process instanceID. It makes one attempt and blocks no longer than ctx allows; the
// watch outlives ctx and must be ended with Close. Errors and opts are as with
// Identify. The node does not miss a watcher that is no member of its cluster: members
// open theirs with Node.OpenWatch.
func OpenWatch(ctx context.Context, address, instanceID string, opts ...grpc.DialOption) (*Watch, error) {
	return watchAs(ctx, address, instanceID, nil, opts)
}

// OpenWatch is the function of that name, in the name of this node, and proves it.
func (n *Node) OpenWatch(ctx context.Context, address string, opts ...grpc.DialOption) (*Watch, error) {
	return watchAs(ctx, address, n.instanceID, n.key, opts)
}

func watchAs(ctx context.Context, address, instanceID string, key ed25519.PrivateKey,
	opts []grpc.DialOption) (*Watch, error) {
	small := []grpc.DialOption{grpc.WithReadBufferSize(watchBuffer),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: watchPing, Timeout: watchPingTimeout})}
	a, err := connect(ctx, address, append(small, opts...))
	if err != nil {
		return nil, err
	}
	w := &Watch{a: a, ended: make(chan struct{})}
	// Not ctx's: the stream outlives it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	opening := context.AfterFunc(ctx, cancel)
	first, err := w.open(life, instanceID, key)
	if err == nil && !opening() {
		err = context.Cause(ctx) // too late: life has ended
	}
	if err == nil && first.GetInstanceId() == "" {
		cancel()
		a.close()
		return nil, a.anonymous()
	}
	if err != nil {
		err = a.failed(ctx, err)
		cancel()
		a.close()
		return nil, err
	}
	w.InstanceID, w.beats = first.GetInstanceId(), first.GetHeartbeats()
	go w.listen()
	if w.beats {
		w.wg.Go(w.beat)
	}
	return w, nil
}

func (w *Watch) open(ctx context.Context, instanceID string, key ed25519.PrivateKey) (*nodepb.WatchResponse, error) {
	stream, err := nodepb.NewNodeClient(w.a.conn).Watch(ctx)
	if err != nil {
		return nil, err
	}
	w.stream = stream
	hello := &nodepb.WatchRequest{InstanceId: instanceID, Heartbeats: true}
	if err := stream.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} // after io.EOF Recv says why
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	answer := &nodepb.WatchRequest{InstanceId: instanceID}
	if key != nil && len(first.GetChallenge()) == challengeSize {
		answer.Proof = sign(key, first.GetChallenge(), watched(first.GetInstanceId(), w.a.address))
	}
	return first, stream.Send(answer) // from here on it is missed if it ends
}

// listen waits for the end; Close joins it.
func (w *Watch) listen() {
	defer close(w.ended)
	for {
		resp, err := w.stream.Recv()
		switch {
		case err != nil:
			w.err = fmt.Errorf("node: %w: the connection to %s ended without a goodbye (%w)", ErrBroken, w.a.address, err)
			return
		case resp.GetGoodbye():
			return
		}
		w.heard.Add(1)
	}
}

// beat sends heartbeats until the watch ends; Close joins it.
func (w *Watch) beat() {
	ticker := time.NewTicker(heartbeat.Every)
	defer ticker.Stop()
	var pace heartbeat.Sender
	for {
		select {
		case <-ticker.C:
		case <-w.ended:
			return
		}
		var send bool
		if pace, send = pace.Tick(w.heard.Load()); !send {
			continue
		}
		w.send.Lock()
		if !w.said { // gRPC would abort the stream, and the goodbye with it
			_ = w.stream.Send(&nodepb.WatchRequest{}) // if the watch has ended, listen says why
		}
		w.send.Unlock()
	}
}

// Heartbeats reports whether the node sends heartbeats, which older versions do not.
func (w *Watch) Heartbeats() bool { return w.beats }

// Heard returns the number of heartbeats that have come.
func (w *Watch) Heard() uint64 { return w.heard.Load() }

// Wait blocks until the watch has ended, and returns nil if the node said goodbye, an
// error that matches ErrBroken if not, also after Close; or until ctx ends, and returns
// its cause.
func (w *Watch) Wait(ctx context.Context) error {
	select {
	case <-w.ended:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close says goodbye to the node, unless the watch or ctx has ended already, waits
// until the node has taken note or ctx ends, and frees what the watch holds. A node that
// has not taken note by then misses its watcher.
func (w *Watch) Close(ctx context.Context) {
	if ctx.Err() == nil {
		w.closeSend()
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
	}
	w.cancel()
	<-w.ended
	w.wg.Wait()
	w.a.close()
}

// closeSend says goodbye: nothing is sent after it.
func (w *Watch) closeSend() {
	w.send.Lock()
	defer w.send.Unlock()
	w.said = true
	_ = w.stream.CloseSend() // of a stream that has ended it does nothing
}
