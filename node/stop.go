package node

import (
	"context"
	"fmt"
	"time"
)

// handlerGrace is how long a stop that was cut short waits for handlers to notice
// that their contexts are cancelled. Those that ignore it are left behind.
const handlerGrace = time.Second

// goodbyePatience is how long a watcher has to take note of a goodbye.
const goodbyePatience = 200 * time.Millisecond

// drainMoment is how long draining takes when nothing is running.
const drainMoment = 20 * time.Millisecond

// MarkStopping says that this node is about to stop: Identify answers so, health
// turns to NOT_SERVING for good and the channel Stopping is closed. Calls are still
// served. A node that has duties to hand over first calls this at their beginning;
// Stop and Close imply it. It does not block and may be called any number of times.
func (n *Node) MarkStopping() { n.markStopping() }

// Stopping is closed once MarkStopping, Stop or Close was called. Long streams of a
// user's own services should end then, or Stop has to wait for them.
func (n *Node) Stopping() <-chan struct{} { return n.stopping }

// Stop ends the node gracefully: watchers are sent a goodbye, health says NOT_SERVING, the port is freed, no
// new call is taken, running calls may finish. When ctx ends first, connections are closed and the contexts of
// running calls cancelled, and the error matches ErrCallsCut and the cause of ctx's end. Connections whose
// handshake is not done are closed at once. It returns when every goroutine of the node has ended; only a
// handler that ignores its cancelled context for a second is left behind. Of each connection gRPC has one
// goroutine, keepalive, that it gives no way to wait for: it waits for nothing but the end of its connection,
// and has that when Stop returns. Stop may be called at any time, also before Start, again (nil if all is
// already down), and concurrently: the context that ends first decides.
func (n *Node) Stop(ctx context.Context) error {
	n.sayGoodbye()
	n.shutListener()
	n.drain()
	select {
	case <-n.drained:
		<-n.served
		return nil
	case <-ctx.Done():
	}
	// A node without running calls is drained in a moment, also when the time was
	// up before: then nothing is cut off.
	moment := time.NewTimer(drainMoment)
	defer moment.Stop()
	select {
	case <-n.drained:
		<-n.served
		return nil
	case <-moment.C:
	}
	cut := n.cut()
	if !cut {
		return nil
	}
	return fmt.Errorf("node: stop of %s: %w: give Stop more time, or end long calls when Stopping is closed (%w)",
		n.advertise, ErrCallsCut, context.Cause(ctx))
}

// Close ends the node at once, as the end of its process would: running calls are cut
// off, and watchers are sent no goodbye. It frees the port also of
// a node that was never started, and hurries a Stop that is under way. Like Stop it
// waits for the node's goroutines. It always returns nil.
func (n *Node) Close() error {
	n.shutListener()
	n.drain()
	n.cut()
	return nil
}

// shutListener marks the node stopped and frees the port.
func (n *Node) shutListener() {
	n.MarkStopping()
	n.mu.Lock()
	first := !n.stopped
	n.stopped = true
	never := !n.started
	n.mu.Unlock()
	n.end()
	if !first {
		return
	}
	n.log.Debug("stopping", "address", n.advertise) // who stops it says so
	_ = n.listener.Close()                          // grpc closes it too; a second close only reports that
	n.listener.closeConns(false)
	if never {
		close(n.served)
	}
}

// cut closes all connections and waits for what ran on them. It reports whether
// anything was still running.
func (n *Node) cut() bool {
	select {
	case <-n.drained:
		<-n.served
		return false
	default:
	}
	n.listener.closeConns(true) // or grpc waits for half a handshake
	n.server.Stop()
	<-n.served
	patience := time.NewTimer(handlerGrace)
	defer patience.Stop()
	select {
	case <-n.drained:
	case <-patience.C:
		n.log.Error("a call ignores its cancelled context and was left behind", "address", n.advertise)
	}
	return true
}
