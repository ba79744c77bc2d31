package peer

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
	"github.com/goverse/goverse/internal/wait"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// ErrBroken is returned when a watch ended without the node's goodbye. The process may have died, or the
// connection may have failed. Compare with errors.Is.
var ErrBroken = errors.New("the watch broke")

const (
	// watchPing is the idle time after which a connection is probed, and watchPingTimeout the time it has to
	// answer. Without probes the reboot of the other machine would go unnoticed.
	watchPing, watchPingTimeout = 10 * time.Second, 5 * time.Second
	// watchBuffer is large enough for the few small messages of a watch.
	watchBuffer = 1 << 10
)

// A Watch is a stream to a node that stays open as long as both processes live. When one dies, its kernel
// closes the connection, and the other notices immediately. All methods are safe for concurrent use.
type Watch struct {
	// InstanceID is the id of the process that answered. It is never empty.
	InstanceID string

	attempt *dialAttempt
	stream  grpc.BidiStreamingClient[nodepb.WatchRequest, nodepb.WatchResponse]
	cancel  context.CancelFunc
	ended   chan struct{}
	// Valid once ended is closed:
	err      error
	statusOK bool // the node ended the stream with the status OK, and without a goodbye of its own

	heard         func(heartbeat.Beat) (acknowledge bool) // nil: acknowledge nothing
	heartbeats    bool                                    // the node sends and accepts heartbeats
	messagesHeard atomic.Uint64
	send          sync.Mutex // held while sending, which gRPC allows one goroutine at a time
	goodbyeSent   bool       // goodbye was sent; guarded by send
	// acknowledge holds the number of the newest heartbeat to acknowledge. Only awaitEnd sends to it.
	acknowledge chan uint64
	removal     atomic.Int64 // the newest revision to report
	report      wait.Signal  // signals that it has grown
	wg          sync.WaitGroup
}

// OpenWatch opens a watch on the node at address (host:port) in the name of this node, which it proves. It makes one
// attempt and blocks at most until ctx ends. The watch outlives ctx and must be ended with Close. Errors and opts are
// like those of Identify. If instance is not empty and the node is another instance, the error is ErrOtherInstance.
//
// After an error the node has no proof that this node watches it: it arms no such watcher, and ignores its loss, as it
// ignores that of a watcher that is not a member of its cluster.
//
// A goroutine of the watch calls heard with each well-formed heartbeat that arms this process, in the order in which
// they were sent, and acknowledges it to the node if heard returns true. If it is about to acknowledge several, it
// acknowledges only the newest. Heard must not block, nor call Close. It may be called before OpenWatch returns, and
// until Close returns; after the goodbye nothing is acknowledged. If heard is nil, the node never arms this process.
func (n *Node) OpenWatch(ctx context.Context, address, instance string,
	heard func(heartbeat.Beat) (acknowledge bool), opts ...grpc.DialOption) (*Watch, error) {
	return watcherName{n.instanceID, n.key}.openWatch(ctx, address, instance, heard, opts)
}

// watcherName is the name in which a process watches others. Without a key it proves nothing.
type watcherName struct {
	instance string
	key      ed25519.PrivateKey
}

func (me watcherName) openWatch(ctx context.Context, address, instance string, heard func(heartbeat.Beat) bool,
	opts []grpc.DialOption) (*Watch, error) {
	small := []grpc.DialOption{grpc.WithReadBufferSize(watchBuffer),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: watchPing, Timeout: watchPingTimeout})}
	a, err := newDialAttempt(ctx, address, append(small, opts...))
	if err != nil {
		return nil, err
	}
	w := &Watch{attempt: a, ended: make(chan struct{}), heard: heard, acknowledge: make(chan uint64, 1),
		report: wait.NewSignal()}
	// The stream outlives ctx, so its context does not end with ctx.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	opening := context.AfterFunc(ctx, cancel)
	first, err := w.openStream(life, me.instance)
	switch {
	case err != nil:
		err = a.classifyError(ctx, err)
	case !opening(): // too late: life has ended
		err = a.classifyError(ctx, context.Cause(ctx))
	case first.GetInstanceId() == "":
		err = a.noInstanceError()
	case instance != "" && first.GetInstanceId() != instance:
		err = fmt.Errorf("node: %w: %s answers at %s, and not %s", ErrOtherInstance, first.GetInstanceId(), address, instance)
	default:
		// From here on the node arms this process, and notices its loss. So ctx ends the watch no more: only Close does.
		if err = w.answerChallenge(me, first); err != nil {
			err = a.classifyError(ctx, err)
		}
	}
	if err != nil {
		cancel()
		a.close()
		return nil, err
	}
	w.InstanceID, w.heartbeats = first.GetInstanceId(), first.GetHeartbeats()
	go w.awaitEnd()
	if w.heartbeats {
		w.wg.Go(w.sendMessages)
	}
	return w, nil
}

// openStream opens the stream, and returns the node's first message.
func (w *Watch) openStream(ctx context.Context, instanceID string) (*nodepb.WatchResponse, error) {
	stream, err := nodepb.NewNodeClient(w.attempt.conn).Watch(ctx)
	if err != nil {
		return nil, err
	}
	w.stream = stream
	hello := &nodepb.WatchRequest{InstanceId: instanceID, Heartbeats: true, Acknowledges: w.heard != nil}
	if err := stream.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} // after io.EOF, Recv returns the reason
	return stream.Recv()
}

// answerChallenge proves to the node that this process is the watcher that it claims to be. If that fails, the stream
// has ended. It does not block, because nothing that was sent before is unread.
func (w *Watch) answerChallenge(me watcherName, first *nodepb.WatchResponse) error {
	answer := &nodepb.WatchRequest{InstanceId: me.instance}
	if me.key != nil && len(first.GetChallenge()) == challengeSize {
		answer.Proof = signProof(me.key, first.GetChallenge(), watchedName(first.GetInstanceId(), w.attempt.address))
	}
	return w.stream.Send(answer)
}

// awaitEnd receives until the end of the watch. Close joins it.
func (w *Watch) awaitEnd() {
	defer close(w.ended)
	for {
		resp, err := w.stream.Recv()
		switch {
		case err != nil:
			w.statusOK = errors.Is(err, io.EOF)
			w.err = fmt.Errorf("node: %w: the connection to %s ended without a goodbye (%w)", ErrBroken, w.attempt.address, err)
			return
		case resp.GetGoodbye():
			return
		}
		w.messagesHeard.Add(1)
		if b, ok := parseBeat(resp.GetBeat()); ok && w.heard != nil && w.heartbeats && w.heard(b) {
			w.acknowledgeBeat(b.Number)
		}
	}
}

// acknowledgeBeat makes sendMessages acknowledge a heartbeat. It never blocks: awaitEnd, which alone sends to the
// channel, empties it first. If awaitEnd itself sent to the node, flow control could block it while the node or the
// network stands still, and this process would hear nothing meanwhile.
func (w *Watch) acknowledgeBeat(number uint64) {
	select {
	case <-w.acknowledge: // a newer one replaces it
	default:
	}
	w.acknowledge <- number
}

// sendMessages sends heartbeats, acknowledgements and reports until the watch ends. Close joins it. A node that reads
// nothing can block it, until the watch ends. A node that reads never does, because it reads each message at once.
func (w *Watch) sendMessages() {
	ticker := time.NewTicker(heartbeat.SendEvery)
	defer ticker.Stop()
	var pace heartbeat.Sender
	for {
		message := &nodepb.WatchRequest{}
		select {
		case <-ticker.C:
			var send bool
			if pace, send = pace.OnTick(w.messagesHeard.Load()); !send {
				continue
			}
		case message.Acknowledged = <-w.acknowledge:
		case <-w.report:
			message.Removal = w.removal.Load()
		case <-w.ended:
			return
		}
		w.send.Lock()
		if !w.goodbyeSent { // sending after goodbye would make gRPC abort the stream
			_ = w.stream.Send(message) // awaitEnd reports the error if the watch has ended
		}
		w.send.Unlock()
	}
}

// ReportRemoval tells the node that etcd has removed a silent member, at that revision or before. Of several reports it
// sends the newest. It does not block. Nodes of older versions ignore reports; those that take no heartbeats get none.
func (w *Watch) ReportRemoval(revision int64) {
	for {
		old := w.removal.Load()
		if revision <= old {
			return
		}
		if w.removal.CompareAndSwap(old, revision) {
			w.report.Send()
			return
		}
	}
}

// Heartbeats reports whether the node sends heartbeats, which older versions do not.
func (w *Watch) Heartbeats() bool { return w.heartbeats }

// Heard returns the number of heartbeats received.
func (w *Watch) Heard() uint64 { return w.messagesHeard.Load() }

// Wait blocks until the watch has ended, or ctx ends. After a goodbye of the node it returns nil, and otherwise
// an error that matches ErrBroken, also after Close. If ctx ends first, it returns ctx's cause.
func (w *Watch) Wait(ctx context.Context) error {
	select {
	case <-w.ended:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close says goodbye to the node, waits until the node acknowledges it or ctx ends, and frees the resources of
// the watch. It says no goodbye if the watch or ctx has ended already. Without an acknowledged goodbye the node
// treats the watcher as lost. Close may be called again, and returns the same then.
//
// Received reports that the node has certainly read the goodbye: it released what it armed on this stream. That is so
// if the node ended the stream with the status OK after the goodbye, because it does so only when it has read the end
// of this side. It is unknown, and received is false, if the stream broke, or if the node's own goodbye ended it, which
// does not depend on what the node has read. If received were true by mistake, the node would keep this process as an
// armed watcher that never acknowledges again. That breaks no promise, but the node would have to confirm its claims
// by reading etcd, for as long as this process is a member. If it is false by mistake, the caller only arms and
// releases again.
func (w *Watch) Close(ctx context.Context) (received bool) {
	defer context.AfterFunc(ctx, w.cancel)() // ends a send that blocks, for which the goodbye would wait
	if ctx.Err() == nil {
		w.sendGoodbye()
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
	}
	w.cancel()
	<-w.ended
	w.wg.Wait()
	w.attempt.close()
	w.send.Lock()
	defer w.send.Unlock()
	return w.goodbyeSent && w.statusOK
}

// sendGoodbye says goodbye, unless the watch has ended. Nothing may be sent after it.
func (w *Watch) sendGoodbye() {
	w.send.Lock()
	defer w.send.Unlock()
	select {
	case <-w.ended:
		return
	default:
	}
	w.goodbyeSent = true
	_ = w.stream.CloseSend() // has no effect on a stream that breaks meanwhile
}
